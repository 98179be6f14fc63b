// defensive: the largest attention that any query of the window pays, not the mean.

#include <algorithm>
#include <numeric>
#include <optional>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/value_out_norms.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class DefensiveScore : public WindowScore {
 public:
  DefensiveScore(const SpecPart& part, const LayerContext& context)
      : WindowScore(part, context), mass_(part.number("mass")) {
    if (part.count("outputs") == 1) norms_.emplace(context, Norm::l1);
  }

  bool needs_values() const override { return norms_.has_value(); }

  void prepare(const StepView& view, int budget) override {
    sum_norms(view);
    if (mass_ > 0.0) make_sure(view, budget);
  }

  std::vector<float> score(const StepView& view, int head) override {
    if (mass_ > 0.0) return to_float(sure_[static_cast<std::size_t>(head)]);
    return to_float(risk(view, head));
  }

  void retain(const StepView& view, int head, const HeadDecision& decision) override {
    if (norms_) norms_->retain(view, head, decision);
  }

 private:
  void sum_norms(const StepView& view) {
    if (!norms_) return;
    norms_->check("defensive");
    sums_.assign(static_cast<std::size_t>(view.block.end), 0.0);
    for (int head = 0; head < model().num_kv_heads; ++head) {
      const std::vector<float>& norms = norms_->of(view, head);
      const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        sums_[static_cast<std::size_t>(tokens[i])] += static_cast<double>(norms[i]);
      }
    }
  }

  /// The scores of all heads: as they are, but in each head the entries that together have `mass`
  /// of the mean attention get the layer's largest.
  void make_sure(const StepView& view, int budget) {
    sure_.clear();
    double largest = 0.0, bias = 0.0;
    std::vector<std::vector<double>> means;
    for (int head = 0; head < model().num_kv_heads; ++head) {
      sure_.push_back(view.caches[static_cast<std::size_t>(head)].tokens.empty()
                          ? std::vector<double>()
                          : risk(view, head));
      for (int i = 0; i < candidates(view, head); ++i) {
        largest = std::max(largest, sure_.back()[static_cast<std::size_t>(i)]);
      }
      means.push_back(mean_attention(view, head));
      // As in its authors' code: of the last of the entries that can leave, not of the window.
      const auto last = std::min(means.back().size(), static_cast<std::size_t>(window()));
      bias += std::accumulate(means.back().end() - static_cast<std::ptrdiff_t>(last),
                              means.back().end(), 0.0) /
              model().num_kv_heads;
    }
    for (std::size_t head = 0; head < means.size(); ++head) {
      const std::vector<double>& mean = means[head];
      const double all = std::accumulate(mean.begin(), mean.end(), 0.0);
      std::vector<std::size_t> order(mean.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return mean[a] > mean[b]; });
      const auto most = static_cast<std::size_t>(std::max(budget - window(), 0));
      double sum = 0.0;
      for (std::size_t i = 0; i < std::min(order.size(), most) && all > 0.0; ++i) {
        sum += mean[order[i]] / all;
        if (sum >= mass_ - bias) break;  // the entry that reaches it is not sure
        sure_[head][order[i]] = largest;
      }
    }
  }

  /// Attention of the entries before the window: mean over its queries and the group, [candidates].
  std::vector<double> mean_attention(const StepView& view, int head) const {
    const int scored = candidates(view, head);
    return group_mean(model(), head, static_cast<std::size_t>(scored), [&](int query_head) {
      const MatrixView attention = rows(view, query_head);
      const auto count = static_cast<double>(attention.rows());
      return sum_of_rows(attention, scored,
                         [&](double weight, std::size_t) { return weight / count; });
    });
  }

  /// [n]
  std::vector<double> risk(const StepView& view, int head) {
    const auto& tokens = view.caches[static_cast<std::size_t>(head)].tokens;
    const int scored = candidates(view, head);
    std::vector<double> worst = worst_case(view, head, scored);
    const double mean =
        std::accumulate(worst.begin(), worst.begin() + scored, 0.0) / std::max(scored, 1);
    for (double& value : worst) value = std::max(value, mean);
    if (norms_) {
      const std::vector<float>& norms = norms_->of(view, head);
      for (std::size_t i = 0; i < worst.size(); ++i) {
        const double sum = sums_[static_cast<std::size_t>(tokens[i])];
        worst[i] *= sum > 0.0 ? static_cast<double>(norms[i]) / sum : 0.0;
      }
    }
    return worst;
  }

  /// The largest attention that a query of the window pays in any query head of the group, each row
  /// smoothed before the window and brought back to its sum there: [n].
  std::vector<double> worst_case(const StepView& view, int head, int scored) const {
    std::vector<double> worst(view.caches[static_cast<std::size_t>(head)].tokens.size(), 0.0);
    const int group = model().group_size();
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      const MatrixView attention = rows(view, query_head);
      for (Eigen::Index r = 0; r < attention.rows(); ++r) {
        const float* row = attention.data() + r * attention.outerStride();
        const std::vector<double> own(row, row + scored);
        const std::vector<double> pooled = smoothed(own, kernel(), Pool::mean, scored);
        const double before = std::accumulate(own.begin(), own.end(), 0.0);
        const double after = std::accumulate(pooled.begin(), pooled.end(), 0.0);
        for (std::size_t i = 0; i < pooled.size() && after > 0.0; ++i) {
          worst[i] = std::max(worst[i], pooled[i] * before / after);
        }
        for (std::size_t i = pooled.size(); i < worst.size(); ++i) {
          worst[i] = std::max(worst[i], static_cast<double>(row[i]));
        }
      }
    }
    return worst;
  }

  double mass_;
  std::vector<std::vector<double>> sure_;  // [Hk][n]: the step's scores, with mass_
  std::optional<ValueOutNorms> norms_;
  std::vector<double> sums_;  // by token: Σ over the heads that hold it
};
}  // namespace

void defensive(PolicyEntry& entry) {
  entry.summary =
      "the largest attention that any of the last queries pays, times the output's share";
  entry.formula =
      "score_i = max(w_i, mean of w) · ‖v_i W_O‖₁ / Σ over the layer's heads of the same, w_i: "
      "largest over the last window queries and the group of A[:, i], each row first smoothed over "
      "the entries before the window and multiplied so that it keeps its sum over them; mean of w: "
      "over the same entries";
  entry.source = "DefensiveKV (2025, arXiv 2510.13334)";
  entry.needs = "the attention of the last window queries, values, W_O";
  entry.work = "n window products of length d per query head; values times W_O once per entry";
  entry.differences =
      "its authors' code first chooses entries that stay in any case: mass=0.9. In each head, by "
      "falling mean attention (as a share of what the entries before the window get), at most N − "
      "window entries get the layer's largest score while their sum stays below 0.9 − b. b: mean "
      "over heads of the attention that the last window of the entries before the window get (the "
      "window itself is probably meant). The code also shares the budget among heads: +adakv(0). "
      "The sum over heads is over those that still hold the entry";
  entry.traits.reads_output_weights = true;
  entry.parameters = {
      window_parameter(), kernel_parameter(5.0),
      flag_parameter("outputs", 1.0, "0: without the factor of the outputs, which needs W_O"),
      number_parameter(
          "mass", 0.0, 0.0, 1.0,
          "share of the mean attention whose entries stay whatever their risk; 0: none")};
  entry.variants = {{"its code, budget shared out over heads", "defensive(mass=0.9)+adakv(0)"},
                    {"without W_O", "defensive(outputs=0)"}};
  entry.own_protection = protects("", "window");
  entry.builder = ScoreBuilder{made_of<DefensiveScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
