#include <algorithm>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores snapkv_score(const NaiveReplay& r, int head, const Block& block, int) {
  const int window = r.part().count("window");
  const int kernel = r.part().count("kernel");
  const bool pool_max = r.part().word("pool") == "max";
  const int group = r.model().group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& tokens = r.cache(head);
  const int n = static_cast<int>(tokens.size());
  const int smoothed = r.part().word("range") == "candidates" ? std::max(n - window, 0) : n;
  const auto pool = [&](const std::vector<double>& votes) {
    std::vector<double> result = votes;
    for (int i = 0; i < smoothed; ++i) {
      std::vector<double> neighbours;
      for (int offset = -(kernel / 2); offset <= kernel / 2; ++offset) {
        const bool outside = i + offset < 0 || i + offset >= smoothed;
        neighbours.push_back(outside ? 0.0 : votes[i + offset]);
      }
      double sum = 0.0;
      for (const double vote : neighbours) sum += vote;
      result[i] = pool_max ? *std::max_element(neighbours.begin(), neighbours.end()) : sum / kernel;
    }
    return result;
  };
  std::vector<double> mean(tokens.size(), 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    std::vector<double> votes(tokens.size(), 0.0);
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores row = r.step_attention(query_head, query);
      for (int i = 0; i < n; ++i) votes[i] += row.at(tokens[i]) / rows;
    }
    if (r.part().count("pool_before_group") == 1) votes = pool(votes);
    for (int i = 0; i < n; ++i) mean[i] += votes[i] / group;
  }
  if (r.part().count("pool_before_group") == 0) mean = pool(mean);
  Scores scores;
  for (int i = 0; i < n; ++i) scores[tokens[i]] = mean[i];
  return scores;
}

NaiveScore snapkv() { return {.name = "snapkv", .score = snapkv_score, .last_entries = "window"}; }

}  // namespace kvloupe::naive::scores
