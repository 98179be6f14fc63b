#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores leverage_score(const NaiveReplay& r, int head, const Block&, int) {
  const auto own = leverage_of(r, head, r.cache(head));
  Scores scores;
  for (std::size_t i = 0; i < own.size(); ++i) scores[r.cache(head)[i]] = own[i];
  return scores;
}

NaiveScore leverage() { return {.name = "leverage", .score = leverage_score}; }

}  // namespace kvloupe::naive::scores
