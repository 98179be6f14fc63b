// cakescore: entries that the last queries look at, and above all those that only some look at.

#include <algorithm>
#include <vector>

#include "analysis/policy/group_mean.h"
#include "analysis/policy/policies.h"
#include "analysis/policy/smoothing.h"

namespace kvloupe::policies {

namespace {
class CakeScore : public Score {
 public:
  CakeScore(const SpecPart& part, const ModelInfo& model)
      : model_(model),
        window_(part.count("window")),
        kernel_(part.count("kernel")),
        gamma_(part.number("gamma")) {}

  Protection protection() const override { return {.window = window_}; }

  std::vector<float> score(const StepView& view, int head) override {
    const auto n = static_cast<int>(view.caches[static_cast<std::size_t>(head)].tokens.size());
    const int candidates = std::max(n - window_, 0);
    std::vector<double> scores =
        group_mean(model_, head, static_cast<std::size_t>(candidates),
                   [&](int query_head) { return spread(view, query_head, candidates); });
    scores = smoothed(scores, kernel_, Pool::mean, candidates);
    scores.resize(static_cast<std::size_t>(n), 0.0);  // the window is kept without a score
    return to_float(scores);
  }

 private:
  /// Mean over the last `window` rows of A, or the rows there are, plus gamma times their variance:
  /// [candidates].
  std::vector<double> spread(const StepView& view, int query_head, int candidates) const {
    const MatrixView rows = view.attention->last_rows(query_head, window_);
    const auto count = static_cast<double>(rows.rows());
    std::vector<double> result;
    for (int i = 0; i < candidates; ++i) {
      double mean = 0.0, squares = 0.0;
      for (Eigen::Index r = 0; r < rows.rows(); ++r) mean += static_cast<double>(rows(r, i));
      mean /= count;
      for (Eigen::Index r = 0; r < rows.rows(); ++r) {
        const double distance = static_cast<double>(rows(r, i)) - mean;
        squares += distance * distance;
      }
      result.push_back(mean + (count > 1.0 ? gamma_ * squares / (count - 1.0) : 0.0));
    }
    return result;
  }

  ModelInfo model_;
  int window_;
  int kernel_;
  double gamma_;
};
}  // namespace

PolicyEntry cakescore() {
  PolicyEntry entry;
  entry.name = "cakescore";
  entry.summary = "the mean attention of the last queries plus gamma times its variance";
  entry.formula =
      "score_i = pool over kernel neighbours of the mean over the group of mean_w A[w, i] + gamma "
      "var_w A[w, i], w: the last window queries, var by W - 1; the last window entries are always "
      "kept";
  entry.source = "CAKE (Qin et al., 2025, arXiv 2503.12491)";
  entry.needs = "the attention of the last window queries";
  entry.work = "n window products of length d per query head";
  entry.differences =
      "its authors use it with budgets of layers: add cake. A step of one query has no variance: "
      "the mean alone counts";
  entry.parameters = {
      {.name = "window",
       .type = ParameterType::count,
       .default_value = 32.0,
       .minimum = 1,
       .maximum = 1e6,
       .words = {},
       .meaning = "queries that count, and cache entries at the end that are always kept"},
      {.name = "gamma",
       .type = ParameterType::number,
       .default_value = 200.0,
       .minimum = 0.0,
       .maximum = 1e6,
       .words = {},
       .meaning = "weight of the variance"},
      {.name = "kernel",
       .type = ParameterType::count,
       .default_value = 5.0,
       .minimum = 1,
       .maximum = 1001,
       .words = {},
       .meaning = "width of the smoothing in entries, over those before the window",
       .odd = true}};
  entry.variants = {{"the paper, with its budgets of layers", "cakescore+cake"}};
  entry.builder = ScoreBuilder{[](const SpecPart& part, const LayerContext& context) {
                                 return std::make_unique<CakeScore>(part, context.model);
                               },
                               ScoreScale::common};
  return entry;
}

}  // namespace kvloupe::policies
