// lavascore: the attention of the last queries, times the longest value of the head.

#include <algorithm>
#include <vector>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class LavaScore : public WindowScore {
 public:
  using WindowScore::WindowScore;

  bool needs_values() const override { return true; }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const int scored = candidates(view, head);
    double longest = 0.0;
    for (Eigen::Index row = 0; row < scored; ++row) {
      longest = std::max(longest, static_cast<double>(cache.values.row(row).lpNorm<1>()));
    }
    const int group = model().group_size();
    std::vector<double> scores(cache.tokens.size(), 0.0);
    for (int i = 0; i < group; ++i) {
      const MatrixView attention = rows(view, head * group + i);
      const auto count = static_cast<double>(attention.rows());
      const std::vector<double> mean =
          smoothed(sum_of_rows(attention, static_cast<int>(scores.size()),
                               [&](double weight, std::size_t) { return weight / count; }),
                   kernel(), Pool::maximum, scored);
      for (std::size_t at = 0; at < mean.size(); ++at) {
        scores[at] = std::max(scores[at], mean[at] * longest);
      }
    }
    return to_float(scores);
  }
};
}  // namespace

void lavascore(PolicyEntry& entry) {
  entry.summary = "the attention of the last queries times the longest value of the head";
  entry.formula =
      "score_i = max over the group of max over kernel neighbours before the window of mean_w A[w, "
      "i], w: the last window queries, times the largest |v_j|_1 of the head's entries before the "
      "window";
  entry.source = "LAVa (Shen et al., 2025, arXiv 2509.09754)";
  entry.needs = "the attention of the last window queries, values";
  entry.work = "n window products of length d per query head";
  entry.differences =
      "its authors share entries among heads by this score, and among layers by its entropy: "
      "lavascore+adakv(0)+lava. Within a head it is snapkv with the largest of the group, not the "
      "mean";
  entry.parameters = {window_parameter(), kernel_parameter(7.0)};
  entry.variants = {{"the paper", "lavascore+adakv(0)+lava"}};
  entry.own_protection = protects("", "window");
  entry.builder = ScoreBuilder{made_of<LavaScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
