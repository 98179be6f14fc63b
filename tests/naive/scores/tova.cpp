#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores tova_score(const NaiveReplay& r, int head, const Block& block, int) {
  const bool whole_layer = r.part().word("aggregate") == "layer";
  const int group = r.model().group_size();
  const int first = whole_layer ? 0 : head * group;
  const int end = whole_layer ? r.model().num_heads : (head + 1) * group;
  Scores scores;
  for (int query_head = first; query_head < end; ++query_head) {
    const Scores row = r.step_attention(query_head, block.end - 1);
    for (const auto& [token, weight] : row) scores[token] += weight / (end - first);
  }
  return scores;
}

NaiveScore tova() { return {.name = "tova", .score = tova_score, .last_entries = "protect_last"}; }

}  // namespace kvloupe::naive::scores
