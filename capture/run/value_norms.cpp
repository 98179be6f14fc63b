#include "capture/run/value_norms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace kvloupe {

namespace {

constexpr std::int64_t kTileFloats = std::int64_t{1} << 15;  // of v W_O: 128 KiB

struct Lengths {
  float l1, l2;
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target("arch=x86-64-v3")))  // available() asks for as much
#endif
/// In several sums, which stay apart until the end.
Lengths
lengths_of(const float* x, std::size_t n) {
  typedef float Vector __attribute__((vector_size(32)));
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  constexpr std::size_t kVectors = 4;
  Vector absolute[kVectors] = {}, squares[kVectors] = {};
  constexpr std::size_t kStep = kVectors * kLanes;
  const std::size_t whole = n / kStep * kStep;
  for (std::size_t i = 0; i < whole; i += kStep) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      Vector part;
      std::memcpy(&part, x + i + v * kLanes, sizeof part);
      absolute[v] += part < 0.0F ? -part : part;
      squares[v] += part * part;
    }
  }
  float l1 = 0.0F, square = 0.0F;
  for (std::size_t i = whole; i < n; ++i) {
    l1 += std::abs(x[i]);
    square += x[i] * x[i];
  }
  for (std::size_t v = 0; v < kVectors; ++v) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      l1 += absolute[v][lane];
      square += squares[v][lane];
    }
  }
  return {l1, std::sqrt(square)};
}

}  // namespace

ValueNorms::ValueNorms(const float* columns, std::int64_t outputs, std::int64_t d)
    : outputs_(outputs), d_(d) {
  panels_.lay_out(MatrixView(columns, outputs, d, Eigen::OuterStride<>(d)));
}

void ValueNorms::measure(const float* values, std::int64_t m, float* l1, float* l2) const {
  const std::size_t stride = KeyPanels::padded(static_cast<std::size_t>(outputs_));
  const std::int64_t tile =
      std::clamp<std::int64_t>(kTileFloats / static_cast<std::int64_t>(stride) / 8 * 8, 8, 64);
  const auto products =
      std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(tile) * stride);
  for (std::int64_t first = 0; first < m; first += tile) {
    const std::int64_t rows = std::min(tile, m - first);
    panels_.multiply(MatrixView(values + first * d_, rows, d_, Eigen::OuterStride<>(d_)), 0,
                     outputs_, products.get(), stride);
    for (std::int64_t row = 0; row < rows; ++row) {
      const Lengths lengths = lengths_of(products.get() + static_cast<std::size_t>(row) * stride,
                                         static_cast<std::size_t>(outputs_));
      l1[first + row] = lengths.l1;
      l2[first + row] = lengths.l2;
    }
  }
}

}  // namespace kvloupe
