// snapkv: the attention of an observation window at the end, smoothed along the cache.

#include <algorithm>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/policies.h"

namespace kvloupe::policies {

namespace {
struct SnapKvOptions {
  int window = 32;
  int kernel = 7;
  bool pool_max = false;
  bool candidates_only = false;
  bool pool_before_group = false;
};

class SnapKvScore : public Score {
 public:
  SnapKvScore(const ModelInfo& model, SnapKvOptions options) : model_(model), options_(options) {}

  Protection protection() const override { return {.window = options_.window}; }

  std::vector<float> score(const StepView& view, int head) override {
    const std::size_t n = view.caches[static_cast<std::size_t>(head)].tokens.size();
    if (options_.pool_before_group) {
      return to_float(group_mean(model_, head, n, [&](int query_head) {
        return pooled(window_mean(view, query_head, n));
      }));
    }
    return to_float(pooled(group_mean(
        model_, head, n, [&](int query_head) { return window_mean(view, query_head, n); })));
  }

 private:
  /// Mean over the last `window` rows of A, or the rows there are: [n].
  std::vector<double> window_mean(const StepView& view, int query_head, std::size_t n) const {
    const MatrixView rows = view.attention->last_rows(query_head, options_.window);
    std::vector<double> mean(n, 0.0);
    for (Eigen::Index r = 0; r < rows.rows(); ++r) {
      const float* row = rows.data() + r * rows.outerStride();
      for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(row[i]);
    }
    for (double& value : mean) value /= static_cast<double>(rows.rows());
    return mean;
  }

  /// With range=candidates the window's own entries neither take part nor are smoothed.
  std::vector<double> pooled(const std::vector<double>& values) const {
    const auto all = static_cast<int>(values.size());
    const int n = options_.candidates_only ? std::max(all - options_.window, 0) : all;
    return smoothed(values, options_.kernel, options_.pool_max ? Pool::maximum : Pool::mean, n);
  }

  ModelInfo model_;
  SnapKvOptions options_;
};
}  // namespace

void snapkv(PolicyEntry& entry) {
  entry.summary =
      "the attention of the last queries, smoothed along the cache; their window is kept";
  entry.formula =
      "score_i = pool over kernel neighbours of the mean of A[last window queries, i], mean over "
      "the group";
  entry.source = "Li et al., SnapKV; KeyDiff A.1, B.2; pool=max: CriticalKV algorithm 2";
  entry.needs = "the attention of the last window queries";
  entry.work = "n window products of length d per query head";
  entry.differences =
      "the official code smooths only the candidates: range=candidates; kvpress smooths before the "
      "mean over the group: pool_before_group=1; other codes use kernel 5 and window 64. While a "
      "model writes, a step has one query, and so has "
      "the window: rkv(lambda=1) keeps the last queries across steps, as R-KV's code does";
  entry.parameters = {
      window_parameter(),
      word_parameter("pool", "avg", {"avg", "max"}, "smoothing by mean or by maximum"),
      kernel_parameter(7.0,
                       "width of the smoothing in entries. The mean divides by it at the ends, "
                       "too, so that a sink at token 0 scores lower"),
      word_parameter("range", "all", {"all", "candidates"},
                     "smooth over all entries, or only over those before the window"),
      flag_parameter("pool_before_group", 0.0,
                     "1: smooth each query head, then average over the group")};
  entry.variants = {
      {"plain (KeyDiff A.1): mean, kernel 7", "snapkv"},
      {"CriticalKV algorithm 2: maximum", "snapkv(pool=max)"},
      {"its authors' runs: maximum, without the window", "snapkv(pool=max,range=candidates)"},
      {"its code's defaults: window 64, kernel 5", "snapkv(window=64,kernel=5,range=candidates)"},
      {"kvpress: smoothed before the group mean",
       "snapkv(window=64,kernel=5,range=candidates,pool_before_group=1)"}};
  entry.cost = [](const SpecPart& part) {
    const double window = part.count("window");  // L, of which a step has at most B
    const auto rows = [window](const StepShape& step) {
      return step.entries * std::min(step.block, window);
    };
    return CostOrder{"O((N + B)L)", "O((N + B)L)", rows, rows};
  };
  entry.own_protection = protects("", "window");
  entry.builder = ScoreBuilder{[](const SpecPart& part, const LayerContext& context) {
    SnapKvOptions options;
    options.window = part.count("window");
    options.kernel = part.count("kernel");
    options.pool_max = part.word("pool") == "max";
    options.candidates_only = part.word("range") == "candidates";
    options.pool_before_group = part.count("pool_before_group") == 1;
    return std::make_unique<SnapKvScore>(context.model, options);
  }};
}

}  // namespace kvloupe::policies
