// capkv: values that the weighted others cannot replace.

#include <Eigen/Cholesky>
#include <cmath>
#include <optional>

#include "analysis/policy/kit/future_rotation.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class CapKvScore : public Score {
 public:
  CapKvScore(const SpecPart& part, const LayerContext& context)
      : part_(part),
        model_(context.model),
        sinks_(part.count("sinks")),
        rope_(context.model),
        moments_(context.model, QueryMoments::Frame::unrotated, sinks_, false) {}

  Protection protection() const override { return {.sink_tokens = sinks_}; }
  bool needs_values() const override { return true; }
  void observe(const StepView& view, int head) override { moments_.observe(view, head); }
  void prepare(const StepView& view, int /*budget*/) override {
    rotation_.emplace(rope_, view.block.end, part_.count("future"));
  }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::size_t n = cache.tokens.size();
    const std::size_t first = rows_before(cache.tokens, sinks_);
    const auto count = static_cast<Eigen::Index>(n - first);
    const Rows values = cache.values.bottomRows(count).cast<double>();
    const Rows keys = cache.keys.bottomRows(count).cast<double>();
    const Eigen::ArrayXd lengths = keys.rowwise().norm();
    std::vector<double> scores = group_mean(model_, head, n, [&](int query_head) {
      std::vector<double> own(n, 0.0);
      if (count == 0) return own;
      const Eigen::ArrayXd weights = weights_of(keys, lengths, query_head);
      const Rows weighted =
          (weights + part_.number("epsilon")).sqrt().matrix().asDiagonal() * values;
      Eigen::MatrixXd sum = Eigen::MatrixXd::Identity(values.cols(), values.cols());
      sum.selfadjointView<Eigen::Lower>().rankUpdate(weighted.transpose());
      const Eigen::LLT<Eigen::MatrixXd, Eigen::Lower> factor(sum);
      const Eigen::MatrixXd solved = factor.matrixL().solve(values.transpose());
      for (Eigen::Index i = 0; i < count; ++i) {
        own[first + static_cast<std::size_t>(i)] = weights[i] * solved.col(i).squaredNorm();
      }
      return own;
    });
    fill_protected(scores, first, n);
    return with_small_scores(scores);
  }
  bool keeps_small_scores() const override { return true; }

 private:
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// exp(τ cos(anchor, k_i)), the largest 1: [n]. If either has no length, the cosine is 0.
  Eigen::ArrayXd weights_of(const Rows& keys, const Eigen::ArrayXd& key_lengths,
                            int query_head) const {
    const Eigen::VectorXd anchor = rotation_->of(moments_.of(query_head).mean());
    Eigen::ArrayXd cosines = keys * anchor;
    if (part_.count("cosine") == 1) {
      const Eigen::ArrayXd lengths = anchor.norm() * key_lengths;
      cosines = (lengths > 0.0).select(cosines / lengths, 0.0);
    }
    return (part_.number("tau") * (cosines - cosines.maxCoeff())).exp();
  }

  SpecPart part_;
  ModelInfo model_;
  int sinks_;
  Rope rope_;
  QueryMoments moments_;
  std::optional<FutureRotation> rotation_;
};
}  // namespace

void capkv(PolicyEntry& entry) {
  entry.summary =
      "entries that later queries point to and whose value the others cannot stand in for";
  entry.formula =
      "score_i = w_i v_i (I + Σ (w + epsilon) vᵀv)⁻¹ v_iᵀ, w_i = exp(tau (cos(anchor, k_i) − "
      "largest)), anchor: the mean query before RoPE, turned to the mean of the next positions; "
      "mean over the group";
  entry.source = "CapKV (2026, arXiv 2604.25975)";
  entry.needs = "queries, keys, values; the rotation of RoPE";
  entry.work = "B d + n d² + d³ operations per query head";
  entry.differences =
      "as in kvpress; the paper takes products in place of cosines: cosine=0, with another tau. "
      "Here the mean is over all queries up to the step";
  entry.parameters = {
      number_parameter("tau", 5.0, 0, 1e3, "weight of the direction: larger counts more"),
      count_parameter("future", 512.0, 1, 1e6,
                      "the number of next positions over which the rotation of RoPE is averaged"),
      count_parameter("sinks", 4.0, 0, 1e6,
                      "first tokens that are always kept, and whose queries do not count"),
      number_parameter("epsilon", 1e-06, 0, 1e6, "added to the weights in the sum"),
      flag_parameter("cosine", 1.0, "0: the product of anchor and key, in place of its cosine")};
  entry.variants = {{"kvpress", "capkv"}};
  entry.own_protection = protects("sinks");
  entry.builder = ScoreBuilder{made_of<CapKvScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
