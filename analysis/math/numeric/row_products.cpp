#include "analysis/math/numeric/row_products.h"

#include <algorithm>
#include <cstring>

#include "analysis/base/system/vectors.h"

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

// The sums of the lanes of four vectors, each (0 + 2) + (1 + 3) once lanes of the upper half were
// added to those of the lower one, until four are left.
inline __attribute__((always_inline)) Four lane_sums(const Eight* of) {
  Four a[4];
  for (int i = 0; i < 4; ++i) {
    a[i] = __builtin_shufflevector(of[i], of[i], 0, 1, 2, 3) +
           __builtin_shufflevector(of[i], of[i], 4, 5, 6, 7);
  }
  const Four ab = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5) +
                  __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7);
  const Four cd = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5) +
                  __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
  return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
/// All four side by side.
template <typename Vector>
inline __attribute__((always_inline)) Four lane_sums(const Vector* of) {
  Vector halves[2];
  for (int i = 0; i < 2; ++i) {
    const Vector &a = of[2 * i], &b = of[2 * i + 1];
    halves[i] =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
        __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  const Vector quarters = __builtin_shufflevector(halves[0], halves[1], 0, 1, 2, 3, 8, 9, 10, 11,
                                                  16, 17, 18, 19, 24, 25, 26, 27) +
                          __builtin_shufflevector(halves[0], halves[1], 4, 5, 6, 7, 12, 13, 14, 15,
                                                  20, 21, 22, 23, 28, 29, 30, 31);
  const Vector pairs = quarters + __builtin_shufflevector(quarters, quarters, 2, 3, 2, 3, 6, 7, 6,
                                                          7, 10, 11, 10, 11, 14, 15, 14, 15);
  return __builtin_shufflevector(pairs, pairs, 0, 4, 8, 12) +
         __builtin_shufflevector(pairs, pairs, 1, 5, 9, 13);
}

/// kRows rows of x from `row` on × `count` of kTogether rows of w from `first` on, with all sums in
/// registers. Where fewer rows of w are left, the last one is taken again. The next rows of w come
/// meanwhile: each tile asks for its share of them, more than once, as a processor with many
/// requests under way drops some. A row alone asks for all.
template <typename Width, int kRows>
inline __attribute__((always_inline)) void row_tile(const RowProducts& of, std::size_t row,
                                                    std::size_t first, std::size_t count) {
  using Vector = typename Width::Vector;
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  constexpr std::size_t kAsked = (kRows > 3 ? 2 : 1) * kTogether;
  const float* w[kTogether];
  for (std::size_t j = 0; j < kTogether; ++j) {
    w[j] = of.w + (first + std::min(j, count - 1)) * of.w_stride;
  }
  const float* const x = of.x + row * of.x_stride;
  Vector sums[kRows][kTogether] = {};
  const std::size_t whole = of.k / kLanes * kLanes;
  std::size_t step = 0, ahead = kTogether * of.w_stride + row * whole / of.rows;
  for (std::size_t c = 0; c < whole; c += kLanes) {
    Vector with[kTogether];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kTogether; ++j)
      with[j] = *reinterpret_cast<const Vector*>(w[j] + c);
    const std::size_t asked = kRows == 1 ? kTogether * of.w_stride + c : ahead;
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kAsked; ++j) __builtin_prefetch(w[j % kTogether] + asked);
    step += kRows;
    ahead += step >= of.rows ? kLanes : 0;
    step -= step >= of.rows ? of.rows : 0;
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
    Four total = lane_sums(sums[r]);
    const float* const own = x + static_cast<std::size_t>(r) * of.x_stride;
    for (std::size_t c = whole; c < of.k; ++c)
      total += own[c] * Four{w[0][c], w[1][c], w[2][c], w[3][c]};
    float* const to = of.products + (row + static_cast<std::size_t>(r)) * of.stride + first;
    std::memcpy(to, &total, count * sizeof(float));
  }
}

/// The rows from `row` on, kRows at a time, then fewer.
template <typename Width, int kRows>
inline __attribute__((always_inline)) void row_tiles(const RowProducts& of, std::size_t row,
                                                     std::size_t first, std::size_t count) {
  for (; row + kRows <= of.rows; row += kRows) row_tile<Width, kRows>(of, row, first, count);
  if constexpr (kRows > 1) row_tiles<Width, kRows - 1>(of, row, first, count);
}

template <typename Width, int kRows>
inline __attribute__((always_inline)) void all_products(const RowProducts& of) {
  for (std::size_t first = 0; first < of.n; first += kTogether)
    row_tiles<Width, kRows>(of, 0, first, std::min(kTogether, of.n - first));
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
