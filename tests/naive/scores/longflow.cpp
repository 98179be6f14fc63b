#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores longflow_score(const NaiveReplay& r, int head, const Block& block, int) {
  Scores scores;
  const int group = r.model().group_size();
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (const auto& [token, weight] : r.step_attention(query_head, block.end - 1)) {
      scores[token] += weight * r.value_norm(head, token, 1) / group;
    }
  }
  return scores;
}

NaiveScore longflow() { return {.name = "longflow", .score = longflow_score}; }

}  // namespace kvloupe::naive::scores
