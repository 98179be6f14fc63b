// expected: the attention that later queries are expected to pay.

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/future_rotation.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/scores/scores.h"
#include "analysis/trace/trace.h"

namespace kvloupe::policies {

namespace {
/// Mean and covariance of one query head's queries before RoPE.
struct QueryDistribution {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;  // empty where it is not asked for
};

/// Those of another trace of the same model, all its tokens from `first_token` on: [Hq].
std::vector<QueryDistribution> distributions_of(const std::string& path, const ModelInfo& model,
                                                int layer, int first_token, bool covariance) {
  const Trace trace(path);
  const bool there = layer < trace.model().num_layers;
  const ModelInfo& other = there ? trace.layer_model(layer) : trace.model();
  if (!there || other.num_heads != model.num_heads || other.head_dim != model.head_dim) {
    throw FileError(path,
                    "has other heads or layers than the trace that is replayed; statistics "
                    "of queries are those of one model");
  }
  const Rope rope(trace.layer_model(layer));
  std::vector<QueryDistribution> result;
  for (int query_head = 0; query_head < model.num_heads; ++query_head) {
    const Matrix queries = trace.query(layer, query_head);
    QueryMoments::Sums sums;
    sums.first = Eigen::VectorXd::Zero(model.head_dim);
    sums.second = Eigen::MatrixXd::Zero(model.head_dim, model.head_dim);
    for (Eigen::Index token = first_token; token < queries.rows(); ++token) {
      Eigen::VectorXd query = queries.row(token).transpose().cast<double>();
      rope.turn(std::span<double>(query.data(), static_cast<std::size_t>(query.size())),
                -static_cast<double>(token));
      sums.add(query);
    }
    if (sums.count < 2) throw FileError(path, "is too short for statistics of its queries");
    result.push_back({sums.mean(), covariance ? sums.covariance(1) : Eigen::MatrixXd()});
  }
  return result;
}

class ExpectedScore : public Score {
 public:
  ExpectedScore(const SpecPart& part, const LayerContext& context)
      : model_(context.model),
        layer_(context.layer),
        attention_(context.attention),
        future_(part.count("future")),
        sinks_(part.count("sinks")),
        covariance_(part.count("covariance") == 1),
        value_norm_(part.count("value_norm") == 1),
        epsilon_(part.number("epsilon")),
        statistics_(part.word("statistics")),
        rope_(context.model),
        moments_(context.model, QueryMoments::Frame::unrotated, sinks_, covariance_) {
    if (attention_.softcap > 0.0) {
      throw UsageError(
          "policy: expected: the model caps its logits (softcap), and the expectation has a "
          "formula only for logits that are not capped; choose another score");
    }
  }

  Protection protection() const override { return {.sink_tokens = sinks_}; }
  bool needs_values() const override { return value_norm_; }

  void observe(const StepView& view, int head) override {
    if (statistics_.empty()) moments_.observe(view, head);
  }

  void prepare(const StepView& view, int /*budget*/) override {
    if (!statistics_.empty() && given_.empty())
      given_ = distributions_of(statistics_, model_, layer_, sinks_, covariance_);
    rotation_.emplace(rope_, view.block.end, future_);
  }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::size_t n = cache.tokens.size();
    const std::size_t first = rows_before(cache.tokens, sinks_);
    // By logarithms: where keys spread widely, most of the attention is too small for float32.
    const std::vector<double> attention = group_attention(cache, head, first);
    std::vector<double> logarithms(n, 0.0);
    for (std::size_t i = first; i < n; ++i) {
      logarithms[i] = epsilon_ > 0.0 ? std::log(std::exp(attention[i]) + epsilon_) : attention[i];
      if (value_norm_) {
        logarithms[i] += std::log(squared_length(cache.values, static_cast<Eigen::Index>(i))) / 2.0;
      }
    }
    std::vector<float> scores(n);
    for (std::size_t i = first; i < n; ++i) scores[i] = score_of_logarithm(logarithms[i]);
    fill_protected(scores, first, n);
    return scores;
  }
  bool keeps_small_scores() const override { return true; }

 private:
  QueryDistribution distribution(int query_head) const {
    if (!given_.empty()) return given_[static_cast<std::size_t>(query_head)];
    const QueryMoments::Sums& sums = moments_.of(query_head);
    return {sums.mean(), covariance_ ? sums.covariance() : Eigen::MatrixXd()};
  }

  /// The logarithm of the mean over the group of the query heads' expected attention: [n], 0 before
  /// `first`.
  std::vector<double> group_attention(const CacheView& cache, int head, std::size_t first) const {
    const int group = model_.group_size();
    std::vector<double> result = expected_attention(cache, head * group, first);
    for (int i = 1; i < group; ++i) {
      const std::vector<double> own = expected_attention(cache, head * group + i, first);
      for (std::size_t row = first; row < own.size(); ++row) {
        // ln(eᵃ + eᵇ); NaN if either is NaN.
        const double larger = std::max(result[row], own[row]);
        const double smaller = result[row] + own[row] - larger;
        result[row] = larger + std::log1p(std::exp(smaller - larger));
      }
    }
    for (std::size_t row = first; row < result.size(); ++row) {
      result[row] -= std::log(static_cast<double>(group));
    }
    return result;
  }

  /// The logarithm of the softmax over the entries from `first` on of s k·μ' + s²/2 kᵀΣ'k: [n], 0
  /// before.
  std::vector<double> expected_attention(const CacheView& cache, int query_head,
                                         std::size_t first) const {
    const auto n = static_cast<Eigen::Index>(cache.tokens.size());
    const auto from = static_cast<Eigen::Index>(first);
    std::vector<double> result(static_cast<std::size_t>(n), 0.0);
    if (from == n) return result;
    const LogitRule rule = attention_.of(query_head);
    const QueryDistribution given = distribution(query_head);
    const auto keys = cache.keys.bottomRows(n - from);
    Eigen::VectorXd logits =
        (keys * rotation_->of(given.mean).cast<float>()).cast<double>() * rule.scale;
    if (covariance_) {
      const Matrix spread = rotation_->of(given.covariance).cast<float>();
      const Matrix products = keys * spread;
      logits += (rule.scale * rule.scale / 2.0) *
                products.cwiseProduct(keys).rowwise().sum().cast<double>();
    }
    for (Eigen::Index i = 0; i < n - from && !cache.log_sizes.empty(); ++i) {
      logits[i] += static_cast<double>(cache.log_sizes[static_cast<std::size_t>(from + i)]);
    }
    double shift = logits.maxCoeff();
    if (rule.has_sink()) shift = std::max(shift, rule.sink);
    const Eigen::ArrayXd weights = (logits.array() - shift).exp();
    const double total = with_sink(weights.sum(), shift, rule);
    for (Eigen::Index i = 0; i < n - from; ++i) {
      result[static_cast<std::size_t>(from + i)] = logits[i] - shift - std::log(total);
    }
    return result;
  }

  ModelInfo model_;
  int layer_;
  LayerAttention attention_;
  int future_;
  int sinks_;
  bool covariance_;
  bool value_norm_;
  double epsilon_;
  std::string statistics_;
  Rope rope_;
  QueryMoments moments_;
  std::vector<QueryDistribution> given_;  // [Hq], of another trace
  std::optional<FutureRotation> rotation_;
};
}  // namespace

void expected(PolicyEntry& entry) {
  entry.summary = "the attention that later queries are expected to pay, times the value's length";
  entry.formula =
      "score_i = (mean over the group of softmax_i(s k_i·μ' + s²/2 k_iᵀΣ'k_i) + epsilon) ‖v_i‖₂; "
      "μ, Σ: of the queries so far before RoPE, turned to the mean of the next positions; s: "
      "attention scale";
  entry.source = "Expected Attention (Devoto et al., 2025, arXiv 2510.00636)";
  entry.needs = "queries, keys, values; the rotation of RoPE";
  entry.work =
      "B d² operations per query head to add the queries, n d² to score (n d without covariance)";
  entry.differences =
      "kvpress scores once, at the end of the context, and scales by 1/√d; here μ and Σ are of all "
      "queries up to the step, and the scale is the model's. In kvpress scores too small for "
      "float32 are 0, and any of these entries may stay";
  entry.parameters = {
      count_parameter("future", 512.0, 1, 1e6,
                      "the number of next positions over which the rotation of RoPE is averaged"),
      count_parameter("sinks", 4.0, 0, 1e6,
                      "first tokens that are always kept, and whose queries do not count"),
      flag_parameter("covariance", 1.0, "0: the queries' mean alone"),
      flag_parameter("value_norm", 1.0, "0: not multiplied by the value's length"),
      number_parameter("epsilon", 0.0, 0, 1e6, "added to the attention before it is multiplied"),
      file_parameter(
          "statistics",
          "a trace of the same model, in quotes, whose queries give μ and Σ (divided by one "
          "less than their number); without it, the queries so far")};
  entry.variants = {{"the paper, and kvpress", "expected"},
                    {"kvpress under AdaKV", "expected(epsilon=0.01)+adakv"},
                    {"with CriticalKV, as kvpress asks", "expected(value_norm=0)+critical"}};
  entry.own_protection = protects("sinks");
  entry.builder = ScoreBuilder{made_of<ExpectedScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
