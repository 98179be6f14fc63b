// dropkv: how far the window's outputs would move without an entry.

#include <algorithm>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/window_score.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class DropKvScore : public WindowScore {
 public:
  DropKvScore(const SpecPart& part, const LayerContext& context)
      : WindowScore(part, context), epsilon_(part.number("epsilon")) {}

  bool needs_values() const override { return true; }

  std::vector<float> score(const StepView& view, int head) override {
    std::vector<double> moved = squared_change(view, head);
    for (double& one : moved) one /= model().group_size();
    return with_small_scores(smoothed(moved, kernel(), Pool::mean, candidates(view, head)));
  }
  bool keeps_small_scores() const override { return true; }

 private:
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// Σ over the window's queries of the group of (p_j / (1 − p_j + epsilon))² ‖v_j − o‖²: [n].
  std::vector<double> squared_change(const StepView& view, int head) const {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const Rows values = cache.values.cast<double>();
    const Eigen::Index n = values.rows();
    const int group = model().group_size();
    Matrix given;  // [group · rows,n]
    for (int i = 0; i < group; ++i) {
      const MatrixView own = rows(view, head * group + i);
      if (i == 0) given.resize(group * own.rows(), n);
      given.middleRows(i * own.rows(), own.rows()) = own;
    }
    const Rows attention = given.cast<double>();
    // In double and from the values' mean on: float32 would leave no digit of the distance from a
    // value that is near the output. A row whose sum is not 1 has that much less of the mean.
    const Eigen::RowVectorXd mean = values.colwise().mean();
    const Rows around = values.rowwise() - mean;  // [n,d]
    const Eigen::VectorXd missing = 1.0 - attention.rowwise().sum().array();
    const Rows outputs = attention * around - missing * mean;  // [group · rows,d], from the mean
    Rows weights = (attention.array() / (1.0 - attention.array() + epsilon_)).square();
    std::vector<double> result(static_cast<std::size_t>(n), 0.0);
    for (Eigen::Index row = 0; row < attention.rows(); ++row) {
      Eigen::Index largest = 0;
      if (attention.row(row).maxCoeff(&largest) <= 0.5) continue;
      weights(row, largest) = 0.0;
      result[static_cast<std::size_t>(largest)] +=
          change_of_largest(attention.row(row), largest, values);
    }
    // ‖v − o‖² = ‖v‖² − 2 v·o + ‖o‖², summed over the queries.
    const Eigen::VectorXd sums = weights.colwise().sum().transpose();
    const Eigen::VectorXd of_outputs = weights.transpose() * outputs.rowwise().squaredNorm();
    const Rows crossed = weights.transpose() * outputs;  // [n,d]
    for (Eigen::Index j = 0; j < n; ++j) {
      const double square = sums[j] * around.row(j).squaredNorm() -
                            2.0 * around.row(j).dot(crossed.row(j)) + of_outputs[j];
      result[static_cast<std::size_t>(j)] += std::max(square, 0.0);
    }
    return result;
  }

  /// The same for one query and the entry that has most of its attention. There 1 − p and v − o
  /// have no digits left as differences: they are sums of the other entries' numbers.
  double change_of_largest(const Eigen::RowVectorXd& row, Eigen::Index largest,
                           const Rows& values) const {
    Eigen::RowVectorXd others = row;
    others[largest] = 0.0;
    // Entries that left the window, and a sink logit, have a part of the row as well.
    const double missing = 1.0 - row.sum();
    const double rest = others.sum() + (missing > 1e-5 ? missing : 0.0);
    const Eigen::RowVectorXd distance = rest * values.row(largest) - others * values;
    const double weight = row[largest] / (rest + epsilon_);
    return weight * weight * distance.squaredNorm();
  }

  double epsilon_;
};
}  // namespace

void dropkv(PolicyEntry& entry) {
  entry.summary = "how far the outputs of the last queries would move without an entry";
  entry.formula =
      "score_j = mean over kernel neighbours before the window of Σ over the last window queries "
      "of (p_j/(1 − p_j + epsilon))² ‖v_j − o‖², mean over the group; o: the query's output";
  entry.source = "DropKV (openreview MqfNzH3TVH), as proposed for kvpress";
  entry.needs = "the attention of the last window queries, values";
  entry.work = "n window products of length d per query head, and as many with values";
  entry.differences = "CAOTE is the same for one query, without the square: tova+caote";
  entry.parameters = {window_parameter(), kernel_parameter(7.0),
                      number_parameter("epsilon", 1e-06, 1e-12, 1, "keeps the quotient finite")};
  entry.variants = {{"kvpress", "dropkv"}};
  entry.own_protection = protects("", "window");
  entry.builder = ScoreBuilder{made_of<DropKvScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
