// vase: values of a large range are pinned, the rest is drawn by chance.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
constexpr double kPinned = 1000.0;          // above every key of a draw
constexpr double kLeastWeight = 1e-300;     // a weight of 0 is drawn last
constexpr double kLargestShare = 0.999999;  // of an entry that is not pinned: below the pinned ones

/// The inclusion probabilities of entries of these weights if `places` of them are drawn one after
/// the other without replacement: 1 - exp(-λ w_i), with λ such that they add up to `places` (Rosén,
/// 1997; exact in the limit of many entries). 1 for all where there is a place for each.
std::vector<double> inclusion(const std::vector<double>& weights, int places) {
  const auto sum_at = [&](double lambda) {
    double sum = 0.0;
    for (const double weight : weights) sum -= std::expm1(-lambda * weight);
    return sum;
  };
  const auto free =
      std::count_if(weights.begin(), weights.end(), [](double weight) { return weight > 0.0; });
  std::vector<double> shares(weights.size(), 1.0);
  if (places >= free) return shares;
  double low = 0.0, high = 1.0;
  while (sum_at(high) < places) high *= 2.0;
  for (int i = 0; i < 200 && low < high; ++i) {
    const double middle = 0.5 * (low + high);
    (sum_at(middle) < places ? low : high) = middle;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) shares[i] = -std::expm1(-high * weights[i]);
  return shares;
}

class VaseScore : public WindowScore {
 public:
  VaseScore(const SpecPart& part, const LayerContext& context)
      : WindowScore(part, context),
        attention_(context.attention),
        layer_(context.layer),
        large_(part.share("large", context.budget)),
        temperature_(part.number("temperature")),
        sinks_(part.count("sinks")),
        seed_(static_cast<std::uint64_t>(part.number("seed"))),
        expected_(part.count("expected") != 0),
        queries_(context.model, window()) {}

  Protection protection() const override { return {.sink_tokens = sinks_, .window = window()}; }
  bool needs_values() const override { return true; }
  void observe(const StepView& view, int head) override { queries_.observe(view, head); }
  void prepare(const StepView&, int budget) override { places_ = std::max(budget - window(), 0); }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::size_t n = cache.tokens.size();
    const int candidates = this->candidates(view, head);
    std::vector<double> scores(n, 0.0);
    if (candidates == 0) return to_float(scores);
    const std::vector<char> pinned = pinned_rows(cache, candidates);
    std::vector<double> weights = sampling_weights(cache, head, candidates);
    int drawn = places_;
    for (std::size_t i = 0; i < pinned.size(); ++i) {
      if (pinned[i] == 0) continue;
      weights[i] = 0.0;
      --drawn;
    }
    const std::vector<double> shares =
        expected_ ? inclusion(weights, std::max(drawn, 1)) : std::vector<double>();
    for (std::size_t i = 0; i < pinned.size(); ++i) {
      if (pinned[i] != 0) {
        scores[i] = expected_ ? 1.0 : kPinned;
      } else if (expected_) {
        scores[i] = std::min(shares[i], kLargestShare);
      } else {
        scores[i] = drawn_key(weights[i], view.block.end, head, cache.tokens[i]);
      }
    }
    fill_protected(scores, 0, static_cast<std::size_t>(candidates));
    return to_float(scores);
  }

 private:
  /// Which candidates have a place for certain: the first tokens, then the largest ranges.
  std::vector<char> pinned_rows(const CacheView& cache, int candidates) const {
    std::vector<float> ranges = value_ranges(cache.values, candidates);
    const std::size_t first = std::min(rows_before(cache.tokens, sinks_), ranges.size());
    std::fill_n(ranges.begin(), first, std::numeric_limits<float>::infinity());
    std::vector<int> rows(ranges.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::stable_sort(rows.begin(), rows.end(), [&](int a, int b) {
      const float one = ranges[static_cast<std::size_t>(a)];
      const float other = ranges[static_cast<std::size_t>(b)];
      return one != other ? one > other : a > b;
    });
    std::vector<char> pinned(ranges.size(), 0);
    const int count = std::clamp(std::min(large_, places_), 0, candidates);
    for (int i = 0; i < count; ++i)
      pinned[static_cast<std::size_t>(rows[static_cast<std::size_t>(i)])] = 1;
    return pinned;
  }

  /// Mean over the last queries of their softmax over the candidates, smoothed, mean over the
  /// group: [candidates]. No candidate is younger than any of these queries.
  std::vector<double> sampling_weights(const CacheView& cache, int head, int candidates) const {
    const int group = model().group_size();
    std::vector<double> weights(static_cast<std::size_t>(candidates), 0.0);
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      const LogitRule rule = attention_.of(query_head);
      Matrix logits = queries_.of(query_head) * cache.keys.topRows(candidates).transpose();
      to_logits(logits, rule);
      std::vector<double> mean(weights.size(), 0.0);
      for (Eigen::Index row = 0; row < logits.rows(); ++row) {
        Eigen::ArrayXd own = logits.row(row).transpose().array().cast<double>();
        for (Eigen::Index i = 0; i < candidates && !cache.log_sizes.empty(); ++i) {
          own[i] += static_cast<double>(cache.log_sizes[static_cast<std::size_t>(i)]);
        }
        own /= temperature_;
        const double sink = rule.sink / temperature_;  // −∞ without
        const double shift = std::max(own.maxCoeff(), sink);
        own = (own - shift).exp();
        const double sum =
            (own.sum() + std::exp(sink - shift)) * static_cast<double>(logits.rows());
        for (std::size_t i = 0; i < mean.size(); ++i) {
          mean[i] += own[static_cast<Eigen::Index>(i)] / sum;
        }
      }
      mean = smoothed(mean, kernel(), Pool::mean, candidates);
      for (std::size_t i = 0; i < mean.size(); ++i) weights[i] += mean[i] / group;
    }
    return weights;
  }

  /// ln w plus a number of Gumbel's distribution: the entries of the highest keys are a draw
  /// without replacement with weights w.
  double drawn_key(double weight, int seen, int head, std::int32_t token) const {
    const double u =
        static_cast<double>(token_hash(seed_ + 1000003ULL * static_cast<std::uint64_t>(seen),
                                       layer_, head, token)) +
        0x1p-25;  // never 0 or 1
    return std::log(std::max(weight, kLeastWeight)) - std::log(-std::log(u));
  }

  LayerAttention attention_;
  int layer_;
  int large_;
  double temperature_;
  int sinks_;
  std::uint64_t seed_;
  bool expected_;
  RecentQueries queries_;
  int places_ = 0;  // of the layer's budget, before the window
};
}  // namespace

void vase(PolicyEntry& entry) {
  entry.summary = "values of a large range are pinned, the other places are drawn by attention";
  entry.formula =
      "the last window entries, the first tokens, and then the largest of max_c v_ic - min_c v_ic "
      "are kept, large of these; the other places are drawn without replacement with weights w_i: "
      "mean over the last window queries so far of softmax(logits / temperature) over the entries "
      "before the window, mean of kernel neighbours, mean over the group. score_i = ln w_i - "
      "ln(-ln u_i), u: hash(seed + 1000003 t, layer, head, token), t: tokens seen; pinned: 1000. "
      "expected=1: the inclusion probability 1 - exp(-λ w_i), with λ such that they add up to the "
      "places; pinned: 1";
  entry.source = "VaSE (2026, arXiv 2606.03928), as in its code; expected: Rosén (1997)";
  entry.needs = "the last window queries, keys, values";
  entry.work = "n window products of length d per query head, and 2 n d comparisons";
  entry.differences =
      "the code acts while the model writes, where its cache has a multiple of 64 entries: "
      "vase+only+every(64). The paper's runs pin 1024 of 4096 entries, as large=25% does. Random "
      "numbers differ. With expected=1 nothing is drawn: the highest probabilities stay";
  entry.parameters = {
      share_parameter(
          "large", Percent{25.0}, 0, 1e6,
          "entries that are pinned, first tokens included: a count, or a share of the budget"),
      window_parameter(64.0),
      number_parameter("temperature", 1.0, 0.001, 1e6, "of the softmax: larger draws more evenly"),
      kernel_parameter(5.0),
      count_parameter("sinks", 4.0, 0, 1e6, "first tokens, which are pinned first"),
      count_parameter("seed", 0.0, 0, 9007199254740991.0, "another seed, another draw"),
      flag_parameter("expected", 0.0,
                     "1: the score is the inclusion probability, in place of one draw")};
  entry.variants = {{"its code", "vase+only+every(64)"}};
  entry.own_protection = protects("sinks", "window");
  entry.builder = ScoreBuilder{made_of<VaseScore>, ScoreScale::signed_own};
}

}  // namespace kvloupe::policies
