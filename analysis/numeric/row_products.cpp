#include "analysis/numeric/row_products.h"

#include <algorithm>
#include <cstring>

#include "analysis/vectors.h"

namespace kvloupe {

namespace {

void plain_products(const RowProducts& of) {
  for (std::size_t row = 0; row < of.rows; ++row) {
    for (std::size_t j = 0; j < of.n; ++j) {
      float total = 0.0F;
      for (std::size_t c = 0; c < of.k; ++c) {
        total += of.x[row * of.x_stride + c] * of.w[j * of.w_stride + c];
      }
      of.products[row * of.stride + j] = total;
    }
  }
}

#ifdef KVLOUPE_VECTOR_KERNELS
constexpr std::size_t kTogether = 4;  // rows of w

typedef float Four __attribute__((vector_size(16)));
typedef float Eight __attribute__((vector_size(32)));

inline __attribute__((always_inline)) Four folded(const Eight& x) {
  return __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
}
template <typename Vector>
inline __attribute__((always_inline)) Four folded(const Vector& x) {
  return folded(Eight(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                      __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)));
}
/// The sums of four vectors' lanes, each (0 + 2) + (1 + 3).
inline __attribute__((always_inline)) Four lane_sums(const Four& a, const Four& b, const Four& c,
                                                     const Four& d) {
  const Four ab =
      __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd =
      __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/// kRows rows of x from `row` on × `count` of kTogether rows of w from `first` on, with all sums in
/// registers. Where fewer rows of w are left, the last one is taken again.
template <typename Width, int kRows>
inline __attribute__((always_inline)) void row_tile(const RowProducts& of, std::size_t row,
                                                    std::size_t first, std::size_t count) {
  using Vector = typename Width::Vector;
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  const float* w[kTogether];
  for (std::size_t j = 0; j < kTogether; ++j) {
    w[j] = of.w + (first + std::min(j, count - 1)) * of.w_stride;
  }
  const float* const x = of.x + row * of.x_stride;
  Vector sums[kRows][kTogether] = {};
  const std::size_t whole = of.k / kLanes * kLanes;
  for (std::size_t c = 0; c < whole; c += kLanes) {
    Vector with[kTogether];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kTogether; ++j)
      with[j] = *reinterpret_cast<const Vector*>(w[j] + c);
    if (row == 0) {
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kTogether; ++j)
        __builtin_prefetch(w[j] + kTogether * of.w_stride + c);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vector own =
          *reinterpret_cast<const Vector*>(x + static_cast<std::size_t>(r) * of.x_stride + c);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kTogether; ++j) sums[r][j] += own * with[j];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    Four total =
        lane_sums(folded(sums[r][0]), folded(sums[r][1]), folded(sums[r][2]), folded(sums[r][3]));
    const float* const own = x + static_cast<std::size_t>(r) * of.x_stride;
    for (std::size_t c = whole; c < of.k; ++c)
      total += own[c] * Four{w[0][c], w[1][c], w[2][c], w[3][c]};
    float* const to = of.products + (row + static_cast<std::size_t>(r)) * of.stride + first;
    std::memcpy(to, &total, count * sizeof(float));
  }
}

template <typename Width, int kRows>
inline __attribute__((always_inline)) void all_products(const RowProducts& of) {
  for (std::size_t first = 0; first < of.n; first += kTogether) {
    const std::size_t count = std::min(kTogether, of.n - first);
    std::size_t row = 0;
    for (; row + kRows <= of.rows; row += kRows) row_tile<Width, kRows>(of, row, first, count);
    for (; row + 3 <= of.rows; row += 3) row_tile<Width, 3>(of, row, first, count);
    for (; row < of.rows; ++row) row_tile<Width, 1>(of, row, first, count);
  }
}

KVLOUPE_WIDE void wide_products(const RowProducts& of) { all_products<WideFloats, 6>(of); }
KVLOUPE_HALF void half_products(const RowProducts& of) { all_products<HalfFloats, 2>(of); }
#else
constexpr auto wide_products = plain_products, half_products = plain_products;
#endif

}  // namespace

void multiply_rows(const RowProducts& of) {
  static const auto kernel = kernel_for_processor(wide_products, half_products, plain_products);
  kernel(of);
}

}  // namespace kvloupe
