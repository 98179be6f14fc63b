// lagkv: what differs from the partition that follows.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/policy/kit/rows.h"
#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class LagKvScore : public Score {
 public:
  LagKvScore(const SpecPart& part, const LayerContext& /*context*/)
      : sinks_(part.count("sinks")), lag_(part.count("lag")), cross_(part.count("cross") == 1) {}

  Protection protection() const override { return {.sink_tokens = sinks_}; }
  bool needs_values() const override { return true; }

  std::vector<float> score(const StepView& view, int head) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const std::size_t n = cache.tokens.size();
    const std::size_t first = rows_before(cache.tokens, sinks_);
    const auto lag = static_cast<std::size_t>(lag_);
    std::vector<double> scores(n, 1.0);
    if (n < first + 2 * lag) {  // too few to compare: the later, the better
      for (std::size_t i = first; i < n; ++i) {
        scores[i] = static_cast<double>(i - first) / static_cast<double>(n);
      }
      fill_protected(scores, first, n);
      return to_float(scores);
    }
    for (std::size_t begin = first; begin + 2 * lag <= n; begin += lag) {
      const auto row = static_cast<Eigen::Index>(begin);
      std::vector<double> own = deviation(cache.keys, row);
      const std::vector<double> of_values = deviation(cache.values, row);
      for (std::size_t i = 0; i < lag; ++i) own[i] = (own[i] + of_values[i]) / 2.0;
      if (!cross_) own = ranks(own);
      std::copy(own.begin(), own.end(), scores.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    return to_float(scores);
  }

 private:
  /// The partition that begins at this row: each coordinate is scaled by its least and greatest
  /// value in the next partition. Returns the deviation over each row's coordinates, as a softmax
  /// over the partition.
  std::vector<double> deviation(const MatrixView& rows, Eigen::Index begin) const {
    const Eigen::ArrayXXd own = rows.middleRows(begin, lag_).cast<double>().array();
    const Eigen::ArrayXXd next = rows.middleRows(begin + lag_, lag_).cast<double>().array();
    const Eigen::ArrayXXd least = next.colwise().minCoeff();
    const Eigen::ArrayXXd range = next.colwise().maxCoeff() - least;
    std::vector<double> result(static_cast<std::size_t>(lag_));
    double sum = 0.0;
    for (Eigen::Index i = 0; i < lag_; ++i) {
      // A coordinate that is the same in the whole partition tells nothing.
      const Eigen::ArrayXXd place = (range > 0.0).select((own.row(i) - least) / range, 0.0);
      const double squares = (place - place.mean()).square().sum();
      const double freedom = std::max<double>(static_cast<double>(place.size()) - 1.0, 1.0);
      result[static_cast<std::size_t>(i)] = std::exp(std::sqrt(squares / freedom));
      sum += result[static_cast<std::size_t>(i)];
    }
    for (double& value : result) value /= sum;
    return result;
  }

  /// Place in ascending order, 0 to 1 − 1/lag; of equals the later is higher.
  std::vector<double> ranks(const std::vector<double>& values) const {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> result(values.size());
    for (std::size_t place = 0; place < order.size(); ++place) {
      result[order[place]] = static_cast<double>(place) / static_cast<double>(values.size());
    }
    return result;
  }

  int sinks_;
  int lag_;
  bool cross_;
};
}  // namespace

void lagkv(PolicyEntry& entry) {
  entry.summary = "entries whose key and value stand out against the entries that follow";
  entry.traits.reads_queries = false;
  entry.formula =
      "score_i = rank within its partition of (σ(K)_i + σ(V)_i)/2; σ: softmax over the partition "
      "of the standard deviation over coordinates of (x − min)/(max − min), min and max over the "
      "next partition; the last partition, what is left after it and the first tokens have 1. "
      "With fewer than two partitions later entries have higher scores, as in sink";
  entry.source = "LagKV (Liang et al., 2025, arXiv 2504.04704)";
  entry.needs = "keys, values";
  entry.work = "n d operations per head";
  entry.differences =
      "cross=1 compares the deviations themselves, as kvpress does under AdaKV; partitions are cut "
      "in the cache as it stands at the step";
  entry.parameters = {
      count_parameter("sinks", 4.0, 0, 1e6, "first tokens that are always kept"),
      count_parameter("lag", 128.0, 1, 1e6, "entries of a partition"),
      flag_parameter("cross", 0.0, "1: the deviations themselves, not their ranks")};
  entry.variants = {{"the paper, and kvpress", "lagkv"},
                    {"kvpress under AdaKV", "lagkv(cross=1)+adakv"}};
  entry.notes = [](const SpecPart& part, const ModelInfo&, int budget) -> Lines {
    const int least = part.count("sinks") + 2 * part.count("lag");
    if (budget + 1 >= least) return {};
    return ("lagkv compares partitions from " + std::to_string(least) +
            " entries on (sinks + 2 lag): in steps of fewer than " +
            std::to_string(least - budget) + " tokens it keeps what sink(" +
            std::to_string(part.count("sinks")) +
            ") keeps; choose a smaller lag, a larger budget or larger blocks");
  };
  entry.cost = costs("O(N + B)", [](const StepShape& step) { return step.entries; });
  entry.own_protection = protects("sinks");
  entry.builder = ScoreBuilder{made_of<LagKvScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
