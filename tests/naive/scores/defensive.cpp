#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

namespace {
Scores risk(const NaiveReplay& r, int head, const Block& block) {
  const SpecPart& part = r.part();
  const int window = part.count("window"), group = r.model().group_size();
  const int rows = std::min(window, block.size());
  const std::vector<int>& cache = r.cache(head);
  const int candidates = std::max(static_cast<int>(cache.size()) - window, 0);
  std::vector<double> worst(cache.size(), 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    for (int query = block.end - rows; query < block.end; ++query) {
      const Scores row = r.step_attention(query_head, query);
      std::vector<double> own;
      for (int i = 0; i < candidates; ++i) own.push_back(row.at(cache[i]));
      const auto pooled = pool(own, part.count("kernel"), false, candidates);
      double before = 0.0, after = 0.0;
      for (int i = 0; i < candidates; ++i) before += own[i], after += pooled[i];
      for (int i = 0; i < candidates && after > 0.0; ++i) {
        worst[i] = std::max(worst[i], pooled[i] * before / after);
      }
      for (std::size_t i = candidates; i < cache.size(); ++i) {
        worst[i] = std::max(worst[i], row.at(cache[i]));
      }
    }
  }
  double mean = 0.0;
  for (int i = 0; i < candidates; ++i) mean += worst[i] / candidates;
  // ‖v W_O‖₁, mean over the group.
  const auto output = [&](int of_head, int token) {
    double norm = 0.0;
    for (int query_head = of_head * group; query_head < (of_head + 1) * group; ++query_head) {
      for (int column = 0; column < r.model().hidden_size; ++column) {
        double sum = 0.0;
        for (int c = 0; c < r.model().value_width(); ++c) {
          sum += r.value(of_head, token, c) *
                 static_cast<double>(r.states().output_weights[query_head](c, column));
        }
        norm += std::abs(sum) / group;
      }
    }
    return norm;
  };
  Scores scores;
  for (int i = 0; i < static_cast<int>(cache.size()); ++i) {
    double share = 1.0;
    if (part.count("outputs") == 1) {
      double sum = 0.0;
      for (int other = 0; other < r.heads(); ++other) {
        const auto& held = r.cache(other);
        if (std::find(held.begin(), held.end(), cache[i]) != held.end()) {
          sum += output(other, cache[i]);
        }
      }
      share = sum > 0.0 ? output(head, cache[i]) / sum : 0.0;
    }
    scores[cache[i]] = std::max(worst[i], mean) * share;
  }
  return scores;
}

Scores defensive_score(const NaiveReplay& r, int head, const Block& block, int budget) {
  const double mass = r.part().number("mass");
  Scores scores = risk(r, head, block);
  if (mass <= 0.0) return scores;
  const int window = r.part().count("window"), heads = r.heads();
  double largest = 0.0, bias = 0.0;
  const auto before = [&](int of_head) {  // how many entries come before the window
    return static_cast<std::size_t>(
        std::max(static_cast<int>(r.cache(of_head).size()) - window, 0));
  };
  for (int other = 0; other < heads; ++other) {
    const Scores risks = risk(r, other, block);
    for (std::size_t i = 0; i < before(other); ++i) {
      largest = std::max(largest, risks.at(r.cache(other)[i]));
    }
    const std::vector<double> mean = window_mean(r, other, block, window, before(other));
    const int n = static_cast<int>(mean.size());
    for (int i = std::max(n - window, 0); i < n; ++i) bias += mean[i] / heads;
  }
  const std::vector<double> mean = window_mean(r, head, block, window, before(head));
  double all = 0.0;
  for (const double one : mean) all += one;
  std::vector<std::pair<double, int>> order;  // best first, of equals the earlier
  for (std::size_t i = 0; i < mean.size(); ++i) order.emplace_back(-mean[i], static_cast<int>(i));
  std::sort(order.begin(), order.end());
  double sum = 0.0;
  for (int i = 0; i < std::min(static_cast<int>(order.size()), budget - window) && all > 0.0; ++i) {
    sum -= order[i].first / all;
    if (sum >= mass - bias) break;
    scores[r.cache(head)[order[i].second]] = largest;
  }
  return scores;
}
}  // namespace

NaiveScore defensive() {
  return {.name = "defensive", .score = defensive_score, .last_entries = "window"};
}

}  // namespace kvloupe::naive::scores
