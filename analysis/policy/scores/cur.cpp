// cur: entries whose key and value are long beside those of their neighbours.

#include <algorithm>

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class CurScore : public Score {
 public:
  CurScore(const SpecPart& part, const LayerContext& /*context*/)
      : sinks_(part.count("sinks")), window_(part.count("window")), of_(part.word("of")) {}

  Protection protection() const override { return {.sink_tokens = sinks_}; }
  bool needs_values() const override { return of_ != "keys"; }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::size_t n = cache.tokens.size();
    const std::vector<double> keys = of_ == "values" ? std::vector<double>(n) : shares(cache.keys);
    const std::vector<double> values =
        of_ == "keys" ? std::vector<double>(n) : shares(cache.values);
    std::vector<double> scores(n);
    double sum = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      scores[i] = of_ == "product" ? keys[i] * values[i] : keys[i] + values[i];
      sum += scores[i];
    }
    for (double& score : scores) score = sum > 0.0 ? score / sum : 0.0;
    return to_float(scores);
  }

 private:
  /// The square of each row's length, as a share of its window's sum.
  std::vector<double> shares(const MatrixView& rows) const {
    std::vector<double> result(static_cast<std::size_t>(rows.rows()));
    for (Eigen::Index first = 0; first < rows.rows(); first += window_) {
      const Eigen::Index end = std::min<Eigen::Index>(first + window_, rows.rows());
      double sum = 0.0;
      for (Eigen::Index i = first; i < end; ++i) {
        result[static_cast<std::size_t>(i)] = squared_length(rows, i);
        sum += result[static_cast<std::size_t>(i)];
      }
      for (Eigen::Index i = first; i < end && sum > 0.0; ++i) {
        result[static_cast<std::size_t>(i)] /= sum;
      }
    }
    return result;
  }

  int sinks_;
  int window_;
  std::string of_;
};
}  // namespace

void cur(PolicyEntry& entry) {
  entry.summary = "entries whose key and value are long beside those of their neighbours";
  entry.traits.reads_queries = false;
  entry.formula =
      "score_i = κ_i ν_i / Σ κν, κ_i: ‖k_i‖² as a share of its window's sum, ν_i: the same of v";
  entry.source = "CurDKV (Sengupta et al., 2025, arXiv 2509.15038)";
  entry.needs = "keys, values";
  entry.work = "2 n d operations per head";
  entry.differences = "the variant with a random projection of keys and values is left out";
  entry.parameters = {
      count_parameter("sinks", 4.0, 0, 1e6, "first tokens that are always kept"),
      count_parameter("window", 16.0, 1, 1e6, "neighbouring entries that are compared"),
      word_parameter("of", "product", {"product", "mean", "keys", "values"},
                     "product of the shares of key and value, their mean, or one of them")};
  entry.variants = {{"kvpress", "cur"}};
  entry.cost = costs("O(N + B)", [](const StepShape& step) { return step.entries; });
  entry.own_protection = protects("sinks");
  entry.builder = ScoreBuilder{made_of<CurScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
