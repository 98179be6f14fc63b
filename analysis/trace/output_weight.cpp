#include "analysis/trace/output_weight.h"

#include <algorithm>
#include <array>

#include "analysis/base/system/vector_clones.h"
#include "analysis/math/numeric/float_rows.h"
#include "analysis/trace/half.h"

namespace kvloupe {

namespace {
constexpr std::uint16_t kExponent = 0x7c00;  // all ones: infinity or not a number

/// Whether any is infinite or not a number.
KVLOUPE_VECTOR_CLONES
bool any_not_finite(const std::uint16_t* halves, std::size_t count) {
  std::uint16_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= static_cast<std::uint16_t>((halves[i] & kExponent) == kExponent);
  }
  return found != 0;
}
}  // namespace

std::size_t OutputWeight::bytes() const {
  return static_cast<std::size_t>(rows_ * cols_) *
         (halves_ ? sizeof(std::uint16_t) : sizeof(float));
}

float OutputWeight::operator()(Eigen::Index row, Eigen::Index col) const {
  return halves_ ? float_from_half(halves_[row * cols_ + col]) : floats_(row, col);
}

Eigen::Index OutputWeight::first_row_not_finite() const {
  for (Eigen::Index row = 0; row < rows_; ++row) {
    const auto size = static_cast<std::size_t>(cols_);
    const bool bad = halves_ ? any_not_finite(halves_.get() + row * cols_, size)
                             : !all_finite(floats_.data() + row * cols_, size);
    if (bad) return row;
  }
  return -1;
}

const Matrix& OutputWeight::floats(Matrix& room) const {
  if (!halves_) return floats_;
  room.resize(rows_, cols_);
  const auto count = static_cast<std::size_t>(room.size());
  floats_from_halves({halves_.get(), count}, {room.data(), count});
  return room;
}

Eigen::VectorXd OutputWeight::apply(const Eigen::VectorXd& x) const {
  Eigen::VectorXd result = Eigen::VectorXd::Zero(cols_);
  // A piece of the sum and of a row stay in the first-level cache.
  constexpr Eigen::Index kPiece = 1024;
  std::array<float, kPiece> wide;
  for (Eigen::Index first = 0; first < cols_; first += kPiece) {
    const Eigen::Index count = std::min(kPiece, cols_ - first);
    const auto size = static_cast<std::size_t>(count);
    for (Eigen::Index row = 0; row < rows_; ++row) {
      const float* piece = wide.data();
      if (halves_) {
        floats_from_halves({halves_.get() + row * cols_ + first, size}, {wide.data(), size});
      } else {
        piece = floats_.data() + row * cols_ + first;
      }
      add_row(result.data() + first, piece, x[row], size);
    }
  }
  return result;
}

std::vector<float> output_norms(const MatrixView& values, const OutputWeight& weight, Norm norm) {
  Matrix room;
  const Matrix& floats = weight.floats(room);
  std::vector<float> norms(static_cast<std::size_t>(values.rows()));
  constexpr Eigen::Index kRows = 256;  // bounds the product held at a time
  for (Eigen::Index first = 0; first < values.rows(); first += kRows) {
    const Eigen::Index count = std::min(kRows, values.rows() - first);
    const Matrix outputs = values.middleRows(first, count) * floats;
    for (Eigen::Index i = 0; i < count; ++i) {
      norms[static_cast<std::size_t>(first + i)] =
          norm == Norm::l1 ? outputs.row(i).lpNorm<1>() : outputs.row(i).norm();
    }
  }
  return norms;
}

}  // namespace kvloupe
