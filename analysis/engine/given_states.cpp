#include "analysis/engine/given_states.h"

#include <bit>
#include <span>

#include "analysis/base/core/error.h"
#include "analysis/engine/calls.h"
#include "analysis/math/numeric/float_rows.h"
#include "analysis/trace/half.h"

namespace kvloupe::engine {

namespace {
void check_states(const kvloupe_engine_states& states, const StatesShape& shape,
                  const std::string& what) {
  require(states.data, what.c_str());
  if (states.type != KVLOUPE_ENGINE_FLOAT32 && states.type != KVLOUPE_ENGINE_FLOAT16 &&
      states.type != KVLOUPE_ENGINE_BFLOAT16) {
    throw UsageError(what + ": numbers of type " + std::to_string(states.type) +
                     " are not known; give float32, float16 or bfloat16");
  }
  const auto text = [](std::int64_t heads, std::int64_t rows, std::int64_t columns) {
    return "[" + std::to_string(heads) + ", " + std::to_string(rows) + ", " +
           std::to_string(columns) + "]";
  };
  if (states.heads != shape.heads || states.rows != shape.rows || states.columns != shape.columns) {
    throw UsageError(what + ": has the shape " + text(states.heads, states.rows, states.columns) +
                     "; give " + text(shape.heads, shape.rows, shape.columns) +
                     ": heads, tokens, channels");
  }
  // No array is larger than the memory: products of strides and counts stay within 64 bits.
  constexpr std::int64_t kMost = std::int64_t{1} << 40U;
  if (states.row_stride < shape.columns || states.row_stride > kMost || states.head_stride < 0 ||
      states.head_stride > kMost) {
    throw UsageError(what + ": has strides of " + std::to_string(states.head_stride) + " and " +
                     std::to_string(states.row_stride) +
                     " numbers; rows must not overlap and the numbers of a row stand side by side");
  }
}

void widen(const std::uint16_t* from, std::int32_t type, std::span<float> to) {
  if (type == KVLOUPE_ENGINE_FLOAT16) return floats_from_halves({from, to.size()}, to);
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(from[i]) << 16U);
  }
}

void check_numbers(const MatrixView& rows, const std::string& what, std::int64_t head,
                   std::int64_t first_row) {
  for (Eigen::Index row = 0; row < rows.rows(); ++row) {
    const float* numbers = rows.data() + row * rows.outerStride();
    if (all_finite(numbers, static_cast<std::size_t>(rows.cols()))) continue;
    throw WorkError(what + " of head " + std::to_string(head) + ", row " +
                    std::to_string(first_row + row) +
                    ": has a number that is not finite; run the model in another type");
  }
}
}  // namespace

std::vector<MatrixView> GivenStates::read(const kvloupe_engine_states& states,
                                          const StatesShape& shape, const std::string& what,
                                          std::int64_t first_row) {
  check_states(states, shape, what);
  std::vector<MatrixView> views;
  const bool copied = states.type != KVLOUPE_ENGINE_FLOAT32;
  copies_.resize(copied ? static_cast<std::size_t>(shape.heads) : 0);
  for (std::int64_t head = 0; head < shape.heads; ++head) {
    if (copied) {
      Matrix& copy = copies_[static_cast<std::size_t>(head)];
      copy.resize(shape.rows, shape.columns);
      const auto* from = static_cast<const std::uint16_t*>(states.data) + head * states.head_stride;
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        widen(from + row * states.row_stride, states.type,
              {copy.data() + row * shape.columns, static_cast<std::size_t>(shape.columns)});
      }
      views.push_back(view(copy));
    } else {
      views.emplace_back(static_cast<const float*>(states.data) + head * states.head_stride,
                         shape.rows, shape.columns, Eigen::OuterStride<>(states.row_stride));
    }
    check_numbers(views.back(), what, head, first_row);
  }
  return views;
}

}  // namespace kvloupe::engine
