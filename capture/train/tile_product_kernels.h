// The kernels behind tile_product.h, included once per instruction set with
// KVLOUPE_TILE_NAMESPACE naming it and KVLOUPE_TILE_FLOATS the floats of one of its registers. GCC
// splits vector types to the registers of the unit being compiled before it inlines, so function
// multiversioning inside one unit would leave them short.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "capture/train/tile_product.h"

namespace kvloupe::train::KVLOUPE_TILE_NAMESPACE {

constexpr int kWidth = KVLOUPE_TILE_FLOATS;
typedef float Vector __attribute__((vector_size(4 * KVLOUPE_TILE_FLOATS)));
typedef int IntVector __attribute__((vector_size(4 * KVLOUPE_TILE_FLOATS)));

inline Vector load(const float* source) {
  Vector vector;
  std::memcpy(&vector, source, sizeof vector);
  return vector;
}

inline void store(float* target, Vector vector) { std::memcpy(target, &vector, sizeof vector); }

/// Rows × (kWidth · Vectors) of C in registers.
template <int Rows, int Vectors>
__attribute__((always_inline)) inline void block(const StridedMatrix& a, const float* b,
                                                 int b_stride, float* c, int c_stride, int inner,
                                                 bool accumulate) {
  Vector sums[Rows][Vectors];
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      sums[row][v] = accumulate ? load(c + row * c_stride + v * kWidth) : Vector{};
    }
  }
  for (int k = 0; k < inner; ++k) {
    Vector right[Vectors];
    for (int v = 0; v < Vectors; ++v) {
      right[v] = load(b + k * b_stride + v * kWidth);
    }
    for (int row = 0; row < Rows; ++row) {
      const float left = a.data[row * a.row_stride + k * a.column_stride];
      for (int v = 0; v < Vectors; ++v) sums[row][v] += left * right[v];
    }
  }
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      store(c + row * c_stride + v * kWidth, sums[row][v]);
    }
  }
}

template <int Rows, int Vectors>
inline void all_rows(const StridedMatrix& a, const float* b, int b_stride, float* c, int c_stride,
                     int rows, int inner, bool accumulate) {
  int row = 0;
  const auto from = [&](int first) {
    return StridedMatrix{a.data + first * a.row_stride, a.row_stride, a.column_stride};
  };
  for (; row + Rows <= rows; row += Rows) {
    block<Rows, Vectors>(from(row), b, b_stride, c + row * c_stride, c_stride, inner, accumulate);
  }
  for (; row + 2 <= rows; row += 2) {
    block<2, Vectors>(from(row), b, b_stride, c + row * c_stride, c_stride, inner, accumulate);
  }
  for (; row < rows; ++row) {
    block<1, Vectors>(from(row), b, b_stride, c + row * c_stride, c_stride, inner, accumulate);
  }
}

/// exp(x) for x ≤ 0 to about 1e-7 relative: 2^n · 2^f, |f| ≤ 1/2, the latter by its series.
inline Vector exponential(Vector x) {
  Vector t = x * 1.44269504F;
  t = t < -126.0F ? Vector{} - 126.0F : t;
  const IntVector whole = __builtin_convertvector(t - 0.5F, IntVector);
  const Vector f = (t - __builtin_convertvector(whole, Vector)) * 0.693147181F;
  Vector sum = 1.0F + f * (1.0F / 6.0F);
  sum = 1.0F + f * (1.0F / 5.0F) * sum;
  sum = 1.0F + f * (1.0F / 4.0F) * sum;
  sum = 1.0F + f * (1.0F / 3.0F) * sum;
  sum = 1.0F + f * 0.5F * sum;
  sum = 1.0F + f * sum;
  const IntVector bits = (whole + 127) << 23;
  Vector power;
  std::memcpy(&power, &bits, sizeof power);
  return sum * power;
}

inline void tile_product(StridedMatrix a, const float* b, int b_stride, float* c, int c_stride,
                         int rows, int inner, int columns, bool accumulate) {
  // As many sums as there are registers beside those for B and the broadcast of A: 16 of the 32 of
  // AVX-512, 12 of the 16 of AVX2. More would live in memory and halve the speed.
  int column = 0;
#if KVLOUPE_TILE_FLOATS == 16
  for (; column + 4 * kWidth <= columns; column += 4 * kWidth) {
    all_rows<4, 4>(a, b + column, b_stride, c + column, c_stride, rows, inner, accumulate);
  }
  for (; column + 2 * kWidth <= columns; column += 2 * kWidth) {
    all_rows<8, 2>(a, b + column, b_stride, c + column, c_stride, rows, inner, accumulate);
  }
  for (; column < columns; column += kWidth) {
    all_rows<8, 1>(a, b + column, b_stride, c + column, c_stride, rows, inner, accumulate);
  }
#else
  for (; column < columns; column += 2 * kWidth) {
    all_rows<6, 2>(a, b + column, b_stride, c + column, c_stride, rows, inner, accumulate);
  }
#endif
}

inline float softmax_row(float* row, int visible, int size, float scale) {
  float largest = row[0];
  for (int i = 1; i < visible; ++i) largest = std::max(largest, row[i]);
  for (int i = visible; i < size; ++i) row[i] = largest;
  Vector sums{};
  for (int i = 0; i < size; i += kWidth) {
    const Vector weight = exponential((load(row + i) - largest) * scale);
    store(row + i, weight);
    sums += weight;
  }
  float sum = 0.0F;
  for (int i = 0; i < kWidth; ++i) sum += sums[i];
  sum -= static_cast<float>(size - visible);  // what lies beyond is exp(0) each
  for (int i = visible; i < size; ++i) row[i] = 0.0F;
  const float inverse = 1.0F / sum;
  for (int i = 0; i < visible; ++i) row[i] *= inverse;
  return largest * scale + std::log(sum);
}

inline void softmax_gradient_row(float* products, float* gradient, int visible, int size,
                                 float scale, float logsumexp, float mean) {
  for (int i = visible; i < size; ++i) products[i] = 0.0F;
  for (int i = 0; i < size; i += kWidth) {
    Vector x = load(products + i) * scale - logsumexp;
    x = x > 0.0F ? Vector{} : x;
    const Vector weight = exponential(x);
    store(products + i, weight);
    store(gradient + i, weight * (load(gradient + i) - mean) * scale);
  }
  for (int i = visible; i < size; ++i) products[i] = gradient[i] = 0.0F;
}

}  // namespace kvloupe::train::KVLOUPE_TILE_NAMESPACE
