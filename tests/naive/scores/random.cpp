#include <cstdint>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores random_score(const NaiveReplay& r, int head, const Block&, int) {
  const auto seed = static_cast<std::uint64_t>(r.part().number("seed"));
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = r.hash(seed, head, token);
  return scores;
}

NaiveScore random() { return {.name = "random", .score = random_score}; }

}  // namespace kvloupe::naive::scores
