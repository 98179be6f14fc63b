#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores h2o_score(const NaiveReplay& r, int head, const Block& block, int) {
  Scores scores;
  for (const int token : r.cache(head)) {
    scores[token] = r.received(head).at(token);
    if (r.part().word("normalise") == "visible") scores[token] /= block.end - token;
  }
  return scores;
}

NaiveScore h2o() { return {.name = "h2o", .score = h2o_score, .accumulates = true}; }

}  // namespace kvloupe::naive::scores
