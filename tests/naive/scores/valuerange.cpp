#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores valuerange_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = value_range(r, head, token);
  return scores;
}

NaiveScore valuerange() {
  return {.name = "valuerange", .score = valuerange_score, .first_tokens = "sinks"};
}

}  // namespace kvloupe::naive::scores
