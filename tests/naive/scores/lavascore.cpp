#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores lavascore_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const int window = part.count("window"), group = r.model().group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = r.cache(head);
  const int candidates = std::max(static_cast<int>(cache.size()) - window, 0);
  double longest = 0.0;
  for (int i = 0; i < candidates; ++i) {
    double norm = 0.0;
    for (int c = 0; c < r.model().value_width(); ++c) norm += std::abs(r.value(head, cache[i], c));
    longest = std::max(longest, norm);
  }
  Scores scores;
  for (const int token : cache) scores[token] = 0.0;
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    std::vector<double> mean(cache.size(), 0.0);
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores row = r.step_attention(query_head, query);
      for (std::size_t i = 0; i < cache.size(); ++i) mean[i] += row.at(cache[i]) / rows;
    }
    mean = pool(mean, part.count("kernel"), true, candidates);
    for (std::size_t i = 0; i < cache.size(); ++i) {
      scores[cache[i]] = std::max(scores[cache[i]], mean[i] * longest);
    }
  }
  return scores;
}

NaiveScore lavascore() {
  return {.name = "lavascore", .score = lavascore_score, .last_entries = "window"};
}

}  // namespace kvloupe::naive::scores
