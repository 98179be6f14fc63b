#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores raas_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = r.stamp(head, token);
  return scores;
}

NaiveScore raas() { return {.name = "raas", .score = raas_score}; }

}  // namespace kvloupe::naive::scores
