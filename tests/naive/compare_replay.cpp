#include "tests/naive/compare_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/policy/kit/policy_catalog.h"
#include "tests/naive/naive_replay.h"
#include "tests/naive/scores/scores.h"
#include "tests/support/record_values.h"

namespace kvloupe::naive {

namespace {
constexpr double kShareTolerance = 2e-4;
constexpr double kNoShare = 1e-36;
constexpr double kSmallTolerance = 1e-3;     // of a score: of a logit of some hundred in float32
constexpr double kReceivedTolerance = 1e-5;  // of attention received, sums of shares in float32

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

/// Whether the policy keeps the order of scores however small they are (score_values.h).
bool keep_small_scores(const PolicySpec& policy) {
  const NaiveScore* twin = find_score(policy.score().name);
  const SpecPart* chunks = policy.find("chunks");
  const SpecPart* shared = policy.find("shared");
  return twin != nullptr && twin->small && (chunks == nullptr || chunks->count("few") == 0) &&
         (shared == nullptr || shared->word("how") == "mean");
}

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

/// How far a naive score may be from the bar that float32 takes it to the bar's other side.
double tolerance_of(const PolicySpec& policy, const HeadStep& twin, double score) {
  double largest = 0.0;
  for (const auto& [token, other] : twin.scores) largest = std::max(largest, std::abs(other));
  const double of_sum = kScoreTolerance * largest;
  if (keep_small_scores(policy) && twin.second_scores.empty()) {
    const double bar = std::fmax(std::abs(twin.threshold), std::abs(twin.layer_threshold));
    return std::min(of_sum, kSmallTolerance * std::fmax(std::abs(score), bar));
  }
  if (!are_shares(policy) || !twin.second_scores.empty()) return of_sum;
  // Below the smallest float32 all are equal.
  const double bar = std::fmax(std::abs(twin.threshold), std::abs(twin.layer_threshold));
  return std::min(of_sum, kShareTolerance * std::fmax(std::abs(score), bar) + kNoShare);
}

/// Ties that change what is merged. What merges follows from more than the scores:
/// - Under adakv a tie between two heads moves a place from one to the other, and with one place
///   more or less a head merges other entries.
/// - Of entries that have received equal attention, rounding says which are heavy.
/// Each head is decided with all numbers of places that scores near the layer's threshold allow,
/// and with its equally heavy entries as the fast replay has them. Only what comes out exactly as
/// there counts as a tie; the twin then goes on from it.
class MergingTies {
 public:
  MergingTies(const PolicySpec& policy, NaiveReplay& naive)
      : policy_(policy), naive_(naive), merges_(policy.find("kvmerger") != nullptr) {}

  void settle(int head, const std::set<int>& retained, const std::vector<Merge>& merges,
              HeadStep& twin) {
    const int own = twin.quota;
    own_ += own;
    if (!merges_ || twin.scores.empty()) {
      least_ += own;
      most_ += own;
      return;
    }
    std::set<int> light;  // what the fast one merges is not heavy there
    for (const Merge& merge : merges) light.insert(merge.from.begin(), merge.from.end());
    const auto [least, most] =
        naive_.possible_quotas(twin, tolerance_of(policy_, twin, twin.layer_threshold));
    std::vector<int> fitting;
    std::set<int> hint;
    for (const bool as_heavy : {false, true}) {
      if (!fitting.empty()) break;
      if (as_heavy) hint = light;
      // More places never leave fewer entries.
      for (int quota = std::max(least, static_cast<int>(retained.size())); quota <= most; ++quota) {
        const HeadStep other = naive_.decide_again(head, quota, hint, kReceivedTolerance);
        if (other.retained == retained && same_merges(merges, other.merges)) {
          fitting.push_back(quota);
        }
        if (other.retained.size() > retained.size()) break;
      }
    }
    if (fitting.empty()) {  // no tie: the comparison will say what differs
      fitting.push_back(own);
      hint.clear();
    }
    const int taken = *std::min_element(fitting.begin(), fitting.end(), [&](int a, int b) {
      return std::abs(a - own) < std::abs(b - own);
    });
    near_ties_ += std::abs(taken - own) + (hint.empty() ? 0 : 1);
    least_ += fitting.front();
    most_ += fitting.back();
    twin = naive_.decide_again(head, taken, hint, kReceivedTolerance);
  }
  /// Whether the heads' places can add up to the layer's.
  bool add_up() const { return least_ <= own_ && own_ <= most_; }
  int near_ties() const { return near_ties_; }

 private:
  const PolicySpec& policy_;
  NaiveReplay& naive_;
  bool merges_;
  int own_ = 0, least_ = 0, most_ = 0, near_ties_ = 0;
};
}  // namespace

Comparison compare(const Replay& fast, int layer, const LayerStates& states, const ModelInfo& model,
                   const LayerAttention& attention, const KnownLayer* known, int prompt_length,
                   const std::vector<char>& structural, const NaivePass* pass) {
  Comparison result;
  const PolicySpec policy = parse_policy(fast.policy);
  NaiveReplay naive(states, model, attention, layer, policy, fast.budget);
  naive.know(known);
  naive.prompt(prompt_length);
  naive.structure(structural);
  naive.pass(pass);
  for (int step = 0; step < static_cast<int>(fast.blocks.size()); ++step) {
    const Block& block = fast.blocks[step];
    std::vector<HeadStep> expected = naive.step(block);
    MergingTies ties(policy, naive);
    for (int head = 0; head < model.num_kv_heads; ++head) {
      HeadStep& twin = expected[head];
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
      ties.settle(head, retained, fast.merges_at(replay, step), twin);
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
        const double tolerance =
            twin.scores.empty() ? 0.0 : tolerance_of(policy, twin, twin.scores.at(token));
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
      const std::vector<QueryHeadMetrics> metrics = test::metrics_of(replay.steps[step]);
      for (int i = 0; i < static_cast<int>(metrics.size()); ++i) {
        const std::string wrong = compare_measures(
            metrics[i], naive.measure(head * model.group_size() + i, block.end - 1, retained));
        if (!wrong.empty()) {
          result.failure = where(wrong);
          return result;
        }
      }
    }
    if (!ties.add_up()) {
      result.failure =
          fmt::format("{}, budget {}, block {}: the heads' places of layer {}, step {}",
                      fast.policy, fast.budget, fast.block, layer, step);
      return result;
    }
    result.near_ties += ties.near_ties();
  }
  return result;
}

}  // namespace kvloupe::naive
