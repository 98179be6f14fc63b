// lavascore: the attention of the last queries, times the longest value of the head.

#include <algorithm>
#include <vector>

#include "analysis/policy/group_mean.h"
#include "analysis/policy/policies.h"
#include "analysis/policy/smoothing.h"

namespace kvloupe::policies {

namespace {
class LavaScore : public Score {
 public:
  LavaScore(const SpecPart& part, const ModelInfo& model)
      : model_(model), window_(part.count("window")), kernel_(part.count("kernel")) {}

  Protection protection() const override { return {.window = window_}; }
  bool needs_values() const override { return true; }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const auto n = static_cast<int>(cache.tokens.size());
    const int candidates = std::max(n - window_, 0);
    double longest = 0.0;
    for (Eigen::Index row = 0; row < candidates; ++row) {
      longest = std::max(longest, static_cast<double>(cache.values.row(row).lpNorm<1>()));
    }
    std::vector<double> scores(static_cast<std::size_t>(n), 0.0);  // the window needs none
    for (int i = 0; i < model_.group_size(); ++i) {
      const MatrixView rows = view.attention->last_rows(head * model_.group_size() + i, window_);
      std::vector<double> mean(static_cast<std::size_t>(candidates), 0.0);
      for (Eigen::Index r = 0; r < rows.rows(); ++r) {
        for (int at = 0; at < candidates; ++at) {
          mean[static_cast<std::size_t>(at)] +=
              static_cast<double>(rows(r, at)) / static_cast<double>(rows.rows());
        }
      }
      mean = smoothed(mean, kernel_, Pool::maximum, candidates);
      for (std::size_t at = 0; at < mean.size(); ++at) {
        scores[at] = std::max(scores[at], mean[at] * longest);
      }
    }
    return to_float(scores);
  }

 private:
  ModelInfo model_;
  int window_;
  int kernel_;
};
}  // namespace

PolicyEntry lavascore() {
  PolicyEntry entry;
  entry.name = "lavascore";
  entry.summary = "the attention of the last queries times the longest value of the head";
  entry.formula =
      "score_i = max over the group of max over kernel neighbours of mean_w A[w, i], w: the last "
      "window queries, times the largest |v_j|_1 of the head's entries before the window, which "
      "are "
      "the ones that are scored; the last window entries are always kept";
  entry.source = "LAVa (Shen et al., 2025, arXiv 2509.09754)";
  entry.needs = "the attention of the last window queries, values";
  entry.work = "n window products of length d per query head";
  entry.differences =
      "its authors share a layer's entries among its heads by it, and the layers by its entropy: "
      "lavascore+adakv(0)+lava. Within one head it orders entries as snapkv does, but for the "
      "group, "
      "of which the largest counts";
  entry.parameters = {
      {.name = "window",
       .type = ParameterType::count,
       .default_value = 32.0,
       .minimum = 1,
       .maximum = 1e6,
       .words = {},
       .meaning = "queries that count, and cache entries at the end that are always kept"},
      {.name = "kernel",
       .type = ParameterType::count,
       .default_value = 7.0,
       .minimum = 1,
       .maximum = 1001,
       .words = {},
       .meaning = "width of the smoothing in entries, over those before the window",
       .odd = true}};
  entry.variants = {{"the paper", "lavascore+adakv(0)+lava"}};
  entry.builder = ScoreBuilder{[](const SpecPart& part, const LayerContext& context) {
                                 return std::make_unique<LavaScore>(part, context.model);
                               },
                               ScoreScale::common};
  return entry;
}

}  // namespace kvloupe::policies
