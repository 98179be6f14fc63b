// rkv: attention, less what other keys repeat.

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class RkvScore : public WindowScore {
 public:
  RkvScore(const SpecPart& part, const LayerContext& context)
      : WindowScore(part, context),
        attention_(context.attention),
        lambda_(part.number("lambda")),
        threshold_(part.number("threshold")),
        queries_(context.model, window()) {
    if (!attention_.sink_logits.empty()) {
      throw UsageError(
          "policy: rkv: takes the largest logit of a group's query heads, and this model has a "
          "sink logit for each of them; choose another score");
    }
  }

  void observe(const StepView& view, int head) override { queries_.observe(view, head); }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const int candidates = this->candidates(view, head);
    std::vector<double> scores(cache.tokens.size(), 0.0);
    if (candidates == 0) return to_float(scores);
    const std::vector<double> attention =
        smoothed(window_attention(cache, head, candidates), kernel(), Pool::maximum, candidates);
    const std::vector<double> similar = redundancy(cache.keys);
    for (std::size_t i = 0; i < static_cast<std::size_t>(candidates); ++i) {
      scores[i] = lambda_ * attention[i] - (1.0 - lambda_) * similar[i];
    }
    fill_protected(scores, 0, static_cast<std::size_t>(candidates));
    return to_float(scores);
  }

 private:
  /// Softmax over the candidates of the largest logit of the group, mean over the last queries:
  /// [candidates]. No candidate is younger than any of these queries.
  std::vector<double> window_attention(const CacheView& cache, int head, int candidates) const {
    const int group = model().group_size();
    const auto rows = static_cast<int>(queries_.of(head * group).rows());
    Matrix largest;
    for (int query_head = head * group; query_head < (head + 1) * group; ++query_head) {
      Matrix logits = queries_.of(query_head) * cache.keys.topRows(candidates).transpose();
      to_logits(logits, attention_.of(query_head));
      largest = query_head == head * group ? logits : Matrix(largest.cwiseMax(logits));
    }
    std::vector<double> mean(static_cast<std::size_t>(candidates), 0.0);
    for (Eigen::Index row = 0; row < rows; ++row) {
      Eigen::ArrayXd logits = largest.row(row).transpose().array().cast<double>();
      for (Eigen::Index i = 0; i < candidates && !cache.log_sizes.empty(); ++i) {
        logits[i] += static_cast<double>(cache.log_sizes[static_cast<std::size_t>(i)]);
      }
      const Eigen::ArrayXd weights = (logits - logits.maxCoeff()).exp();
      const double sum = weights.sum() * rows;
      for (Eigen::Index i = 0; i < candidates; ++i) {
        mean[static_cast<std::size_t>(i)] += weights[i] / sum;
      }
    }
    return mean;
  }

  /// softmax over all entries of the mean cosine with the others, [n]. In each row of cosines that
  /// of the latest key above the threshold does not count, or of the first where none is: the
  /// latest of several similar keys is not a repetition.
  std::vector<double> redundancy(const MatrixView& keys) const {
    constexpr Eigen::Index kTile = 64;
    const Eigen::Index n = keys.rows();
    Matrix unit = keys;
    for (Eigen::Index i = 0; i < n; ++i) {
      const float length = unit.row(i).norm();
      if (length > 0.0F) unit.row(i) /= length;
    }
    Eigen::ArrayXd mean = Eigen::ArrayXd::Zero(n);
    Matrix cosines;
    for (Eigen::Index first = 0; first < n; first += kTile) {
      const Eigen::Index count = std::min(kTile, n - first);
      cosines.noalias() = unit.middleRows(first, count) * unit.transpose();
      for (Eigen::Index i = 0; i < count; ++i) {
        auto row = cosines.row(i);
        row[first + i] = 0.0F;
        Eigen::Index latest = n - 1;
        while (latest > 0 && !(static_cast<double>(row[latest]) > threshold_)) --latest;
        row[latest] = 0.0F;
        mean += row.transpose().array().cast<double>() / static_cast<double>(n);
      }
    }
    const Eigen::ArrayXd weights = (mean - mean.maxCoeff()).exp();
    const double sum = weights.sum();
    std::vector<double> result(static_cast<std::size_t>(n));
    for (Eigen::Index j = 0; j < n; ++j) result[static_cast<std::size_t>(j)] = weights[j] / sum;
    return result;
  }

  LayerAttention attention_;
  double lambda_;
  double threshold_;
  RecentQueries queries_;
};
}  // namespace

void rkv(PolicyEntry& entry) {
  entry.summary = "the attention of the last queries, less how much other keys repeat an entry";
  entry.formula =
      "score_i = λ a_i − (1 − λ) r_i, a: softmax, over the entries before the window, of the "
      "largest logit of the group, mean over the last window queries so far, largest of kernel "
      "neighbours; r: softmax over all entries of c_i = Σ_j C_ji / n, C: cosines of the keys, 0 of "
      "a key with itself, and in each row j 0 at the last i with C_ji > threshold (at the first "
      "entry where there is none)";
  entry.source = "R-KV (Cai et al., 2025, arXiv 2505.24133), as in its code";
  entry.needs = "the last window queries, keys";
  entry.work =
      "n² products of length d per head: the most expensive score that does not see the future";
  entry.differences =
      "the code's λ is 0.07, its instructions say 0.1. r is of the size 1/n, so λ has little "
      "effect in long caches. As in the code, the window spans steps. The code evicts once per 128 "
      "generated tokens: rkv+every(128)";
  entry.parameters = {
      window_parameter(8.0), kernel_parameter(7.0),
      number_parameter("lambda", 0.07, 0, 1, "weight of the attention"),
      number_parameter("threshold", 0.5, -1, 1, "cosine above which keys repeat each other")};
  entry.variants = {{"its code", "rkv+every(128)"},
                    {"its instructions", "rkv(lambda=0.1)+every(128)"}};
  entry.cost =
      costs("O((N + B)²)", [](const StepShape& step) { return step.entries * step.entries; });
  entry.own_protection = protects("", "window");
  entry.builder = ScoreBuilder{made_of<RkvScore>, ScoreScale::signed_own};
}

}  // namespace kvloupe::policies
