// snapkv: the attention of an observation window at the end, smoothed along the cache.

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class SnapKvScore : public WindowScore {
 public:
  SnapKvScore(const SpecPart& part, const LayerContext& context)
      : WindowScore(part, context),
        pool_(part.word("pool") == "max" ? Pool::maximum : Pool::mean),
        candidates_only_(part.word("range") == "candidates"),
        before_group_(part.count("pool_before_group") == 1) {}

  std::vector<float> score(const StepView& view, int head) override {
    const std::size_t n = view.caches[static_cast<std::size_t>(head)].tokens.size();
    // With range=candidates the window's own entries neither take part nor are smoothed.
    const int taking_part = candidates_only_ ? candidates(view, head) : static_cast<int>(n);
    const auto pooled = [&](const std::vector<double>& values) {
      return smoothed(values, kernel(), pool_, taking_part);
    };
    const std::vector<double> mean = group_mean(model(), head, n, [&](int query_head) {
      const std::vector<double> own = mean_of_rows(rows(view, query_head));
      return before_group_ ? pooled(own) : own;
    });
    return to_float(before_group_ ? mean : pooled(mean));
  }

 private:
  Pool pool_;
  bool candidates_only_;
  bool before_group_;
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
  entry.builder = ScoreBuilder{made_of<SnapKvScore>};
}

}  // namespace kvloupe::policies
