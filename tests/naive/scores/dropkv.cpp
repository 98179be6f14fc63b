#include <algorithm>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores dropkv_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const int window = part.count("window"), group = r.model().group_size(),
            d = r.model().value_width();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = r.cache(head);
  std::vector<double> moved(cache.size(), 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores p = r.step_attention(query_head, query);
      std::vector<double> output(d, 0.0);
      for (const int token : cache) {
        for (int c = 0; c < d; ++c) output[c] += p.at(token) * r.value(head, token, c);
      }
      for (std::size_t j = 0; j < cache.size(); ++j) {
        const double own = p.at(cache[j]);
        const double weight = own / (1.0 - own + part.number("epsilon"));
        for (int c = 0; c < d; ++c) {
          const double difference = r.value(head, cache[j], c) - output[c];
          moved[j] += weight * weight * difference * difference / group;
        }
      }
    }
  }
  moved = pool(moved, part.count("kernel"), false,
               std::max(static_cast<int>(cache.size()) - window, 0));
  Scores scores;
  for (std::size_t i = 0; i < cache.size(); ++i) scores[cache[i]] = moved[i];
  return scores;
}

NaiveScore dropkv() {
  return {.name = "dropkv", .score = dropkv_score, .last_entries = "window", .small = true};
}

}  // namespace kvloupe::naive::scores
