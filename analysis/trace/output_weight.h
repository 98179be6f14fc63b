#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// The rows of W_O that belong to one query head [d,D], in the precision of the file: in the trace
/// of a large model they are most of the bytes that a measure reads, and halves take half the
/// memory.
class OutputWeight {
 public:
  OutputWeight() = default;
  /// Implicit: a float matrix needs nothing else.
  OutputWeight(Matrix floats)  // NOLINT(google-explicit-constructor)
      : rows_(floats.rows()), cols_(floats.cols()), floats_(std::move(floats)) {}
  /// IEEE halves [rows · cols], row by row.
  OutputWeight(Eigen::Index rows, Eigen::Index cols, std::shared_ptr<const std::uint16_t[]> halves)
      : rows_(rows), cols_(cols), halves_(std::move(halves)) {}

  Eigen::Index rows() const { return rows_; }
  Eigen::Index cols() const { return cols_; }
  std::size_t bytes() const;
  float operator()(Eigen::Index row, Eigen::Index col) const;
  /// The first row with a number that is not finite, or −1.
  Eigen::Index first_row_not_finite() const;
  /// All of it as floats, exact: the held matrix, or `room`, filled.
  const Matrix& floats(Matrix& room) const;
  /// x W_O of one head output x [d], in double: [D].
  Eigen::VectorXd apply(const Eigen::VectorXd& x) const;

 private:
  Eigen::Index rows_ = 0, cols_ = 0;
  Matrix floats_;                                  // empty where there are halves
  std::shared_ptr<const std::uint16_t[]> halves_;  // null where there are floats
};

/// ‖v_i W_O‖ of every value: [n]. values [n,d]; weight [d,D], of one query head.
std::vector<float> output_norms(const MatrixView& values, const OutputWeight& weight, Norm norm);

}  // namespace kvloupe
