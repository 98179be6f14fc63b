#include <algorithm>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores rkv_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const int window = part.count("window"), group = r.model().group_size();
  const int rows = std::min(window, block.end);  // of whatever steps
  const std::vector<int>& cache = r.cache(head);
  const int n = static_cast<int>(cache.size());
  const int candidates = std::max(n - window, 0);
  Scores scores;
  if (candidates == 0) return with_protected(scores, r.cache(head));
  std::vector<double> attention(candidates, 0.0);
  for (int query = block.end - rows; query < block.end; ++query) {
    std::vector<double> logits;
    for (int i = 0; i < candidates; ++i) {
      double largest = -1e300;
      for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
        largest = std::max(largest, r.logit(query_head, query, cache[i]));
      }
      logits.push_back(largest);
    }
    const auto weights = softmax(logits);
    for (int i = 0; i < candidates; ++i) attention[i] += weights[i] / rows;
  }
  attention = pool(attention, part.count("kernel"), true, candidates);
  std::vector<double> mean(n, 0.0);
  for (int i = 0; i < n; ++i) {
    std::vector<double> cosines;
    for (int j = 0; j < n; ++j) {
      const double lengths = r.key_norm(head, cache[i]) * r.key_norm(head, cache[j]);
      cosines.push_back(i == j || lengths == 0.0 ? 0.0
                                                 : r.product(head, cache[i], cache[j]) / lengths);
    }
    int latest = 0;
    for (int j = 0; j < n; ++j) latest = cosines[j] > part.number("threshold") ? j : latest;
    cosines[latest] = 0.0;
    for (int j = 0; j < n; ++j) mean[j] += cosines[j] / n;
  }
  const auto repeated = softmax(mean);
  const double lambda = part.number("lambda");
  for (int i = 0; i < candidates; ++i) {
    scores[cache[i]] = lambda * attention[i] - (1.0 - lambda) * repeated[i];
  }
  return with_protected(scores, r.cache(head));
}

NaiveScore rkv() { return {.name = "rkv", .score = rkv_score, .last_entries = "window"}; }

}  // namespace kvloupe::naive::scores
