#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores vatp_score(const NaiveReplay& r, int head, const Block&, int) {
  Scores scores;
  for (const int token : r.cache(head)) {
    scores[token] = r.received(head).at(token) * r.value_norm(head, token, 1);
  }
  return scores;
}

NaiveScore vatp() {
  return {.name = "vatp", .score = vatp_score, .first_tokens = "sinks", .accumulates = true};
}

}  // namespace kvloupe::naive::scores
