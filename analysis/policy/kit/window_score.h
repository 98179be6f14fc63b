#pragma once

#include <algorithm>
#include <vector>

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// A score from the attention of a step's last queries. The entries of the window itself are kept;
/// they have the score of the formula too, but take no part in the smoothing.
class WindowScore : public Score {
 public:
  /// Reads the parameters `window` and `kernel`.
  WindowScore(const SpecPart& part, const LayerContext& context)
      : model_(context.model), window_(part.count("window")), kernel_(part.count("kernel")) {}

  Protection protection() const override { return {.window = window_}; }

 protected:
  /// How many entries of a head may leave: the first ones.
  int candidates(const StepView& view, int head) const {
    const auto n = static_cast<int>(view.caches[static_cast<std::size_t>(head)].tokens.size());
    return std::max(n - window_, 0);
  }
  /// The last `window` rows of A, or the rows there are: [rows,n].
  MatrixView rows(const StepView& view, int query_head) const {
    return view.attention->last_rows(query_head, window_);
  }
  /// Σ over the rows of term(A[row, i], i), of the first entries: [entries].
  template <typename Term>
  static std::vector<double> sum_of_rows(const MatrixView& rows, int entries, const Term& term) {
    std::vector<double> sums(static_cast<std::size_t>(entries), 0.0);
    for (Eigen::Index row = 0; row < rows.rows(); ++row) {
      const float* const weights = rows.data() + row * rows.outerStride();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += term(static_cast<double>(weights[i]), i);
      }
    }
    return sums;
  }
  const ModelInfo& model() const { return model_; }
  int window() const { return window_; }
  int kernel() const { return kernel_; }

 private:
  ModelInfo model_;
  int window_;
  int kernel_;
};

/// The parameters of such a score.
inline ParameterInfo window_parameter(double window = 32.0) {
  return count_parameter("window", window, 1, 1e6,
                         "last queries that count, and last entries that always stay");
}
inline ParameterInfo kernel_parameter(
    double width,
    const char* meaning = "width of the smoothing in entries, over those before the window") {
  return {.name = "kernel",
          .type = ParameterType::count,
          .default_value = width,
          .minimum = 1,
          .maximum = 1001,
          .meaning = meaning,
          .odd = true};
}

}  // namespace kvloupe
