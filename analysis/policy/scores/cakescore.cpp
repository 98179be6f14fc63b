// cakescore: entries that the last queries look at, and above all those that only some look at.

#include <vector>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class CakeScore : public WindowScore {
 public:
  CakeScore(const SpecPart& part, const LayerContext& context)
      : WindowScore(part, context), gamma_(part.number("gamma")) {}

  std::vector<float> score(const StepView& view, int head) override {
    const std::size_t n = view.caches[static_cast<std::size_t>(head)].tokens.size();
    const std::vector<double> scores = group_mean(
        model(), head, n, [&](int query_head) { return spread(rows(view, query_head)); });
    return to_float(smoothed(scores, kernel(), Pool::mean, candidates(view, head)));
  }

 private:
  /// The mean of the rows plus gamma times their variance: [n].
  std::vector<double> spread(const MatrixView& rows) const {
    const auto count = static_cast<double>(rows.rows());
    std::vector<double> mean = mean_of_rows(rows);
    if (!(count > 1.0)) return mean;
    const std::vector<double> squares = sum_of_rows(
        rows, static_cast<int>(rows.cols()),
        [&](double weight, std::size_t i) { return (weight - mean[i]) * (weight - mean[i]); });
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += gamma_ * squares[i] / (count - 1.0);
    return mean;
  }

  double gamma_;
};
}  // namespace

void cakescore(PolicyEntry& entry) {
  entry.summary = "the mean attention of the last queries plus gamma times its variance";
  entry.formula =
      "score_i = mean over kernel neighbours before the window of the mean over the group of "
      "mean_w A[w, i] + gamma var_w A[w, i], w: the last window queries, var by W - 1";
  entry.source = "CAKE (Qin et al., 2025, arXiv 2503.12491)";
  entry.needs = "the attention of the last window queries";
  entry.work = "n window products of length d per query head";
  entry.differences =
      "its authors combine it with their budgets of layers: add cake. A step of one query has no "
      "variance";
  entry.parameters = {window_parameter(),
                      number_parameter("gamma", 200.0, 0.0, 1e6, "weight of the variance"),
                      kernel_parameter(5.0)};
  entry.variants = {{"the paper, with its budgets of layers", "cakescore+cake"}};
  entry.own_protection = protects("", "window");
  entry.builder = ScoreBuilder{made_of<CakeScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
