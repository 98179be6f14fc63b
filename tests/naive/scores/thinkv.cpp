#include <algorithm>
#include <cmath>

#include "tests/naive/scores/scores.h"

namespace kvloupe::naive::scores {

namespace {
/// Of one layer, mean over its query heads.
std::vector<double> last_row(const NaivePass::Layer& layer, int query,
                             const std::vector<int>& keys) {
  std::vector<double> mean(keys.size(), 0.0);
  const int heads = layer.model.num_heads, group = heads / layer.model.num_kv_heads;
  for (int h = 0; h < heads; ++h) {
    std::vector<double> logits;
    for (const int key : keys) {
      double product = 0.0;
      for (int c = 0; c < layer.model.head_dim; ++c) {
        product += static_cast<double>(layer.states->queries[h](query, c)) *
                   layer.states->keys[h / group](key, c);
      }
      double logit = product * layer.attending.scale;
      const double cap = layer.attending.softcap;
      if (cap > 0.0) logit = cap * std::tanh(logit / cap);
      logits.push_back(sees(layer.model, query, key) ? logit : -1e300);
    }
    if (!layer.attending.sink_logits.empty()) {
      logits.push_back(static_cast<double>(layer.attending.sink_logits[h]));
    }
    const std::vector<double> shares = softmax(logits);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (sees(layer.model, query, keys[i])) mean[i] += shares[i] / heads;
    }
  }
  return mean;
}

/// The entropies that divide three classes.
std::pair<double, double> borders(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const int n = static_cast<int>(x.size());
  const std::pair thirds{x[n / 3], x[2 * n / 3]};
  if (n < 4) return thirds;
  double mean = 0.0, squares = 0.0;
  for (const double value : x) mean += value / n;
  for (const double value : x) squares += (value - mean) * (value - mean);
  const auto quarter = [&](int q) {  // of four
    const double at = q * (n - 1) / 4.0;
    const int low = static_cast<int>(std::floor(at)), high = static_cast<int>(std::ceil(at));
    return x[low] * (1.0 - (at - low)) + x[high] * (at - low);
  };
  const double iqr = quarter(3) - quarter(1), deviation = std::sqrt(squares / (n - 1));
  const double width =
      0.9 * (iqr > 0.0 ? std::min(deviation, iqr / 1.349) : deviation) / std::pow(n, 0.2);
  if (width <= 0.0) return thirds;
  const auto place = [&](int i) { return x.front() + (x.back() - x.front()) * i / 255.0; };
  const auto density = [&](int i) {
    double sum = 0.0;
    for (const double value : x) {
      const double z = (place(i) - value) / width;
      sum += std::exp(-z * z / 2.0);
    }
    return sum / (n * width * std::sqrt(2.0 * M_PI));
  };
  std::vector<int> valleys;
  for (int i = 1; i < 255; ++i) {
    if (density(i) < density(i - 1) && density(i) <= density(i + 1)) valleys.push_back(i);
  }
  if (valleys.size() < 2) return thirds;
  std::stable_sort(valleys.begin(), valleys.end(),
                   [&](int i, int j) { return density(i) < density(j); });
  return {place(std::min(valleys[0], valleys[1])), place(std::max(valleys[0], valleys[1]))};
}

Scores thinkv_score(const NaiveReplay& r, int head, const Block& block, int) {
  const SpecPart& part = r.part();
  const std::vector<int>& cache = r.cache(head);
  const auto& layers = r.pass().layers;
  const int used = std::min<int>(part.count("layers"), layers.size());
  const int n = static_cast<int>(cache.size());
  std::vector<double> mean(n, 0.0), last;
  for (int i = static_cast<int>(layers.size()) - used; i < static_cast<int>(layers.size()); ++i) {
    last = last_row(layers[i], block.end - 1, cache);
    for (int k = 0; k < n; ++k) mean[k] += last[k] / used;
  }
  const int recent = std::min(part.count("recent"), r.budget() / 4);
  const int candidates = std::max(n - recent, 0), segment = part.count("segment");
  std::vector<std::vector<int>> segments;
  for (int k = 0; k < candidates; ++k) {
    if (k % segment == 0) segments.emplace_back();
    segments.back().push_back(k);
  }
  std::vector<double> entropies;
  for (const std::vector<int>& own : segments) {
    double all = 0.0, entropy = 0.0;
    for (const int k : own) all += mean[k];
    for (const int k : own) {
      const double p = mean[k] / (all + 1e-9);
      entropy -= p * std::log(p + 1e-12);
    }
    entropies.push_back(entropy);
  }
  Scores scores;
  if (segments.empty()) return with_protected(scores, cache);
  const auto [low, high] = borders(entropies);
  for (std::size_t s = 0; s < segments.size(); ++s) {
    std::vector<int> own = segments[s];
    std::stable_sort(own.begin(), own.end(), [&](int i, int j) { return last[i] < last[j]; });
    const bool alone = segments.size() == 1;
    const int keeps = part.count(alone || entropies[s] <= low ? "reasoning"
                                 : entropies[s] <= high       ? "execution"
                                                              : "transition");
    for (int k = 0; k < static_cast<int>(own.size()); ++k) {
      const bool kept = k >= static_cast<int>(own.size()) - keeps;
      scores[cache[own[k]]] =
          kept ? static_cast<double>(segments.size() - s) + static_cast<double>(k) / own.size()
               : last[own[k]];
    }
  }
  return with_protected(scores, cache);
}
}  // namespace

NaiveScore thinkv() {
  return {.name = "thinkv", .score = thinkv_score, .last_entries = "recent", .last_share = 0.25};
}

}  // namespace kvloupe::naive::scores
