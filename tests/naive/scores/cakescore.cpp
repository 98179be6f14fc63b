#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores cakescore_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const int window = part.count("window"), group = r.model().group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = r.cache(head);
  std::vector<double> spread = window_mean(r, head, block, window, cache.size());
  for (int query_head = head * group; query_head < (head + 1) * group && rows > 1; ++query_head) {
    std::vector<Scores> attention;
    for (int query = block.end - rows; query < block.end; ++query) {
      attention.push_back(r.step_attention(query_head, query));
    }
    for (std::size_t i = 0; i < spread.size(); ++i) {
      double mean = 0.0, squares = 0.0;
      for (const Scores& row : attention) mean += row.at(cache[i]) / rows;
      for (const Scores& row : attention) squares += std::pow(row.at(cache[i]) - mean, 2);
      spread[i] += part.number("gamma") * squares / (rows - 1) / group;
    }
  }
  spread = pool(spread, part.count("kernel"), false,
                std::max(static_cast<int>(cache.size()) - window, 0));
  Scores scores;
  for (std::size_t i = 0; i < cache.size(); ++i) scores[cache[i]] = spread[i];
  return scores;
}

NaiveScore cakescore() {
  return {.name = "cakescore", .score = cakescore_score, .last_entries = "window"};
}

}  // namespace kvloupe::naive::scores
