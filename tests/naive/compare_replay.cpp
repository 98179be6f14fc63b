#include "tests/naive/compare_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/policy/policy_catalog.h"
#include "tests/naive/naive_replay.h"
#include "tests/support/record_values.h"

namespace kvloupe::naive {

namespace {
constexpr double kShareTolerance = 2e-4;
constexpr double kNoShare = 1e-36;

/// Metrics agree to float32 rounding, relative to the size of what is added up.
std::string compare_measures(const QueryHeadMetrics& fast, const Measures& naive) {
  const double size = std::max(naive.magnitude, naive.perturbation_l1) + 1.0;
  const auto differs = [&](double a, double b) {
    if (std::isnan(a) && std::isnan(b)) return false;
    return !(std::abs(a - b) <= 1e-4 * size);
  };
  if (differs(fast.retained_mass, naive.retained_mass)) return "retained mass";
  if (differs(fast.perturbation_l1, naive.perturbation_l1)) return "perturbation L1";
  if (differs(fast.bound_l1, naive.bound_l1)) return "bound L1";
  if (differs(fast.perturbation_l2, naive.perturbation_l2)) return "perturbation L2";
  if (differs(fast.bound_l2, naive.bound_l2)) return "bound L2";
  if (differs(fast.head_error_l2, naive.head_error_l2)) return "head error";
  return "";
}

/// Whether scores are shares of attention or what a value-aware form makes of these: then they keep
/// their digits however small they are, and a tie is near relative to the scores that tie.
bool are_shares(const PolicySpec& policy) { return base_scale(policy) == ScoreScale::attention; }

/// The same sets, and weights to float32 rounding.
bool same_merges(const std::vector<Merge>& fast, const std::vector<NaiveMerge>& naive) {
  const auto same = [](const Merge& a, const NaiveMerge& b) {
    if (a.into != b.into || a.from != b.from || a.weights.size() != b.weights.size()) return false;
    for (std::size_t i = 0; i < a.weights.size(); ++i) {
      if (!(std::abs(static_cast<double>(a.weights[i]) - b.weights[i]) <= 1e-4)) return false;
    }
    return true;
  };
  return fast.size() == naive.size() && std::all_of(fast.begin(), fast.end(), [&](const Merge& a) {
           return std::any_of(naive.begin(), naive.end(),
                              [&](const NaiveMerge& b) { return same(a, b); });
         });
}
}  // namespace

Comparison compare(const Replay& fast, int layer, const LayerStates& states, const ModelInfo& model,
                   const LayerAttention& attention, const KnownLayer* known) {
  Comparison result;
  const PolicySpec policy = parse_policy(fast.policy);
  NaiveReplay naive(states, model, attention, layer, policy, fast.budget);
  naive.know(known);
  for (int step = 0; step < static_cast<int>(fast.blocks.size()); ++step) {
    const Block& block = fast.blocks[static_cast<std::size_t>(step)];
    const std::vector<HeadStep> expected = naive.step(block);
    for (int head = 0; head < model.num_kv_heads; ++head) {
      const HeadStep& twin = expected[static_cast<std::size_t>(head)];
      const HeadReplay& replay = *fast.find(layer, head);
      const auto where = [&](const std::string& what) {
        return fmt::format("{}, budget {}, block {}: {} at layer {}, head {}, step {}", fast.policy,
                           fast.budget, fast.block, what, layer, head, step);
      };
      const auto tokens = fast.tokens_at(replay, step);
      if (!std::equal(tokens.begin(), tokens.end(), twin.cache.begin(), twin.cache.end())) {
        result.failure = where("another cache");
        return result;
      }
      const auto kept = fast.retained_at(replay, step);
      const std::set<int> retained(kept.begin(), kept.end());
      double largest = 0.0;
      for (const auto& [token, score] : twin.scores) largest = std::max(largest, std::abs(score));
      if (!twin.scores.empty()) result.decisions += static_cast<long>(twin.cache.size());
      for (const int token : twin.cache) {
        if (retained.count(token) == twin.retained.count(token)) continue;
        double margin =
            twin.scores.empty() ? 1e300 : std::abs(twin.scores.at(token) - twin.threshold);
        // Under adakv a tie between two heads moves a place from one to the other.
        const bool shared = !std::isnan(twin.layer_threshold);
        if (shared) {
          // A head of which all or nothing stays has no threshold of its own: NaN.
          margin = std::fmin(margin, std::abs(twin.scores.at(token) - twin.layer_threshold));
        }
        // Two stages: each is near a tie relative to its own largest score.
        if (!twin.second_scores.empty()) {
          double second = 0.0;
          for (const auto& [other, score] : twin.second_scores) second = std::max(second, score);
          const double own = std::abs(twin.second_scores.at(token) - twin.second_threshold);
          margin = std::fmin(margin, own * (largest / second));
        }
        double tolerance = kScoreTolerance * largest;
        if (are_shares(policy)) {
          const double own = std::abs(twin.scores.at(token));
          const double bar = std::fmax(std::abs(twin.threshold), std::abs(twin.layer_threshold));
          // Below the smallest float32 all are equal.
          tolerance = std::min(tolerance, kShareTolerance * std::fmax(own, bar) + kNoShare);
          if (!twin.second_scores.empty()) tolerance = kScoreTolerance * largest;
        }
        if (!(margin <= tolerance) || twin.protected_tokens.count(token) == 1 ||
            (retained.size() != twin.retained.size() && !shared)) {
          result.failure =
              where(fmt::format("token {}, {} against {} of its twin, margin {:.3g},", token,
                                retained.count(token), twin.retained.count(token), margin));
          return result;
        }
        ++result.near_ties;
      }
      if (retained != twin.retained) {
        naive.adopt(head, retained);
      } else if (!same_merges(fast.merges_at(replay, step), twin.merges)) {
        result.failure = where("other merges");
        return result;
      }
      const std::vector<QueryHeadMetrics> metrics =
          test::metrics_of(replay.steps[static_cast<std::size_t>(step)]);
      for (int i = 0; i < static_cast<int>(metrics.size()); ++i) {
        const std::string wrong =
            compare_measures(metrics[static_cast<std::size_t>(i)],
                             naive.measure(head * model.group_size() + i, block.end - 1, retained));
        if (!wrong.empty()) {
          result.failure = where(wrong);
          return result;
        }
      }
    }
  }
  return result;
}

}  // namespace kvloupe::naive
