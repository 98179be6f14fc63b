#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/math/numeric/splitmix.h"
#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// Attention statistics of a key-value head are means over its query heads (KeyDiff B.2). Calls
/// `statistic(query_head)`, [n] each, and averages in double. Result [n].
template <typename Statistic>
std::vector<double> group_mean(const ModelInfo& model, int head, std::size_t n,
                               const Statistic& statistic) {
  const int group = model.group_size();
  std::vector<double> mean(n, 0.0);
  for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
    const auto& values = statistic(query_head);
    for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(values[i]);
  }
  for (double& value : mean) value /= group;
  return mean;
}

/// The mean of rows of attention: [n].
inline std::vector<double> mean_of_rows(const MatrixView& rows) {
  std::vector<double> mean(static_cast<std::size_t>(rows.cols()), 0.0);
  for (Eigen::Index r = 0; r < rows.rows(); ++r) {
    const float* row = rows.data() + r * rows.outerStride();
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(row[i]);
  }
  for (double& value : mean) value /= static_cast<double>(rows.rows());
  return mean;
}

inline std::vector<float> to_float(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

/// A score that knows each head by itself: `Head` has observe(cache), score(cache), [n], and
/// retain(cache, decision).
template <typename Head>
class ScoreOfHeads : public Score {
 public:
  explicit ScoreOfHeads(std::vector<Head> heads) : heads_(std::move(heads)) {}
  void observe(const StepView& view, int head) override {
    const auto index = static_cast<std::size_t>(head);
    heads_[index].observe(view.caches[index]);
  }
  std::vector<float> score(const StepView& view, int head) override {
    const auto index = static_cast<std::size_t>(head);
    return heads_[index].score(view.caches[index]);
  }
  void retain(const StepView& view, int head, const HeadDecision& decision) override {
    const auto index = static_cast<std::size_t>(head);
    heads_[index].retain(view.caches[index], decision);
  }

 private:
  std::vector<Head> heads_;  // [Hk]
};

enum class Pool { mean, maximum };

/// Smoothing along the first `n` entries with a window of `kernel` (odd) entries; what lies outside
/// of them counts as 0 and is divided by too. The entries from `n` on stay as they are.
std::vector<double> smoothed(const std::vector<double>& values, int kernel, Pool pool, int n);

// Scores that are products of probabilities may be too small for float32, in which all of them
// would be 0 and their order lost.

/// The float32 that stands for a score with this natural logarithm: the score itself from 1e-30 on.
/// A smaller score s becomes 1e-30 (s / 1e-30)^(1/64): this keeps the order of scores down to
/// 1e-540, to 5 digits, and is still nothing beside a score that counts. 0 for −∞.
float score_of_logarithm(double logarithm);
/// The natural logarithm of the score that such a float32 stands for; −∞ for 0.
double logarithm_of_score(float score);
/// The same float32 of scores that are not negative: [n].
std::vector<float> with_small_scores(const std::vector<double>& scores);

/// A fixed hash of (seed, layer, head, token), uniform in [0, 1): a random number that is the same
/// in every run and order. 24 bits, which a float holds exactly.
inline float token_hash(std::uint64_t seed, int layer, int head, std::int32_t token) {
  std::uint64_t state = splitmix(seed);
  state = splitmix(state + static_cast<std::uint64_t>(layer));
  state = splitmix(state + static_cast<std::uint64_t>(head));
  return static_cast<float>(splitmix(state + static_cast<std::uint64_t>(token)) >> 40U) * 0x1p-24F;
}

}  // namespace kvloupe
