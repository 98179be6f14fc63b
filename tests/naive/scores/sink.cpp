#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores sink_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) scores[token] = token;
  return scores;
}

NaiveScore sink() { return {.name = "sink", .score = sink_score, .first_tokens = "n"}; }

}  // namespace kvloupe::naive::scores
