#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores keynorm_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = -r.key_norm(head, token);
  return scores;
}

NaiveScore keynorm() { return {.name = "keynorm", .score = keynorm_score}; }

}  // namespace kvloupe::naive::scores
