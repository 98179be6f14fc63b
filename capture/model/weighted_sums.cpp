#include "capture/model/weighted_sums.h"

#include <algorithm>

namespace kvloupe {

namespace {

// A stretch of values stays in the second-level cache while all rows use it, and 16 of its columns
// in the first-level cache.
constexpr std::size_t kStretch = 256;

using Kernel = void (*)(const WeightedSums&);

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KVLOUPE_WEIGHTED_SUMS

/// Vectors at any address of a float. Members of a struct, because a template argument (and auto)
/// loses attributes.
struct Wide {
  typedef float Vector __attribute__((vector_size(64), aligned(4), may_alias));
};
struct Half {
  typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));
};
struct One {
  typedef float Vector;
};

/// kRows rows × kVectors vectors of the sums in registers while a stretch of values passes.
template <typename Width, int kRows, int kVectors>
inline __attribute__((always_inline)) void tile(const float* weights, std::size_t weight_stride,
                                                const float* values, std::size_t value_stride,
                                                std::size_t n, float* sums,
                                                std::size_t sum_stride) {
  using Vector = typename Width::Vector;
  Vector total[kRows][kVectors] = {};
  for (std::size_t k = 0; k < n; ++k) {
    const Vector* value = reinterpret_cast<const Vector*>(values + k * value_stride);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float weight = weights[static_cast<std::size_t>(r) * weight_stride + k];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) total[r][v] += weight * value[v];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    Vector* row = reinterpret_cast<Vector*>(sums + static_cast<std::size_t>(r) * sum_stride);
    for (int v = 0; v < kVectors; ++v) row[v] += total[r][v];
  }
}

/// All rows of kVectors vectors of columns from `column` on, over the values from `first` to `end`.
template <typename Width, int kRows, int kVectors>
inline __attribute__((always_inline)) void all_rows(const WeightedSums& of, std::size_t first,
                                                    std::size_t end, std::size_t column) {
  const float* values = of.values + first * of.value_stride + column;
  std::size_t r = 0;
  for (; r + kRows <= of.rows; r += kRows) {
    tile<Width, kRows, kVectors>(of.weights + r * of.weight_stride + first, of.weight_stride,
                                 values, of.value_stride, end - first,
                                 of.sums + r * of.sum_stride + column, of.sum_stride);
  }
  for (; r < of.rows; ++r) {
    tile<Width, 1, kVectors>(of.weights + r * of.weight_stride + first, of.weight_stride, values,
                             of.value_stride, end - first, of.sums + r * of.sum_stride + column,
                             of.sum_stride);
  }
}

template <typename Width, int kRows, int kVectors>
inline __attribute__((always_inline)) void all(const WeightedSums& of) {
  constexpr std::size_t kLanes = sizeof(typename Width::Vector) / sizeof(float);
  for (std::size_t first = 0; first < of.n; first += kStretch) {
    const std::size_t end = std::min(first + kStretch, of.n);
    std::size_t column = 0;
    for (; column + kVectors * kLanes <= of.d; column += kVectors * kLanes) {
      all_rows<Width, kRows, kVectors>(of, first, end, column);
    }
    for (; column + kLanes <= of.d; column += kLanes) {
      all_rows<Width, kRows, 1>(of, first, end, column);
    }
    for (; column < of.d; ++column) all_rows<One, kRows, 1>(of, first, end, column);
  }
}

__attribute__((target("arch=x86-64-v4"))) void wide_kernel(const WeightedSums& of) {
  all<Wide, 6, 4>(of);
}

__attribute__((target("arch=x86-64-v3"))) void half_kernel(const WeightedSums& of) {
  all<Half, 6, 2>(of);
}
#endif

void plain_kernel(const WeightedSums& of) {
  for (std::size_t first = 0; first < of.n; first += kStretch) {
    const std::size_t end = std::min(first + kStretch, of.n);
    for (std::size_t r = 0; r < of.rows; ++r) {
      for (std::size_t column = 0; column < of.d; ++column) {
        float total = 0.0F;
        for (std::size_t k = first; k < end; ++k) {
          total += of.weights[r * of.weight_stride + k] * of.values[k * of.value_stride + column];
        }
        of.sums[r * of.sum_stride + column] += total;
      }
    }
  }
}

Kernel choose() {
#ifdef KVLOUPE_WEIGHTED_SUMS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return wide_kernel;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    return half_kernel;
  }
#endif
  return plain_kernel;
}

}  // namespace

void add_weighted_sums(const WeightedSums& of) {
  static const Kernel kernel = choose();
  kernel(of);
}

}  // namespace kvloupe
