#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

static Scores vase_score(const NaiveReplay& r, int head, const Block& block, int budget) {
  const SpecPart& part = r.part();
  const int window = part.count("window"), group = r.model().group_size();
  const double temperature = part.number("temperature");
  const std::vector<int>& cache = r.cache(head);
  const int candidates = std::max(static_cast<int>(cache.size()) - window, 0);
  if (candidates == 0) return with_protected({}, cache);

  const int rows = std::min(window, block.end);
  std::vector<double> weights(candidates, 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    std::vector<double> mean(candidates, 0.0);
    for (int query = block.end - rows; query < block.end; ++query) {
      std::vector<double> logits;
      for (int i = 0; i < candidates; ++i) {
        logits.push_back(r.logit(query_head, query, cache[i]) / temperature);
      }
      if (!r.attending().sink_logits.empty()) {
        logits.push_back(static_cast<double>(r.attending().sink_logits[query_head]) / temperature);
      }
      const std::vector<double> shares = softmax(logits);
      for (int i = 0; i < candidates; ++i) mean[i] += shares[i] / rows;
    }
    mean = pool(mean, part.count("kernel"), false, candidates);
    for (int i = 0; i < candidates; ++i) weights[i] += mean[i] / group;
  }

  std::vector<int> by_range;  // the first tokens, then the largest range, of equals the later
  for (int i = 0; i < candidates; ++i) by_range.push_back(i);
  const auto range = [&](int i) {
    return cache[i] < part.count("sinks") ? 1e300 : value_range(r, head, cache[i]);
  };
  std::stable_sort(by_range.begin(), by_range.end(), [&](int a, int b) {
    return range(a) != range(b) ? range(a) > range(b) : a > b;
  });
  const int places = std::max(budget - window, 0);
  const int pinned = std::min({part.share("large", r.budget()), places, candidates});
  std::vector<int> others(by_range.begin() + pinned, by_range.end());

  Scores scores;
  const bool expected = part.count("expected") == 1;
  for (int i = 0; i < pinned; ++i) scores[cache[by_range[i]]] = expected ? 1.0 : 1000.0;
  const int drawn = std::max(places - pinned, 1);
  double rate = 0.0;  // of the clocks of which `drawn` have rung in the mean
  if (expected && drawn < static_cast<int>(others.size())) {
    for (double part_of = 1e12; part_of > 1e-18; part_of /= 2.0) {
      double rung = 0.0;
      for (const int i : others) rung += 1.0 - std::exp(-(rate + part_of) * weights[i]);
      if (rung < drawn) rate += part_of;
    }
  }
  const auto seed = static_cast<std::uint64_t>(part.number("seed")) +
                    std::uint64_t{1000003} * static_cast<std::uint64_t>(block.end);
  for (const int i : others) {
    if (expected) {
      const double share = rate > 0.0 ? 1.0 - std::exp(-rate * weights[i]) : 1.0;
      scores[cache[i]] = std::min(share, 0.999999);
    } else {
      const double u = r.hash(seed, head, cache[i]) + std::ldexp(1.0, -25);
      scores[cache[i]] = std::log(weights[i]) - std::log(-std::log(u));
    }
  }
  return with_protected(scores, cache);
}

NaiveScore vase() {
  return {.name = "vase", .score = vase_score, .first_tokens = "sinks", .last_entries = "window"};
}

}  // namespace kvloupe::naive::scores
