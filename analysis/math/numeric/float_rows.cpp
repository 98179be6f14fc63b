#include "analysis/math/numeric/float_rows.h"

#include <cstring>

#include "analysis/base/system/vector_clones.h"

namespace kvloupe {

#ifdef __GNUC__
namespace {
// Sums of 32 coordinates stay in registers while the rows pass; a loop over an array would store
// and load them again at each row. The compiler cuts these vectors to the processor's width.
constexpr std::size_t kLanes = 8, kVectors = 4;
typedef double Doubles __attribute__((vector_size(kLanes * sizeof(double))));
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
}  // namespace
#endif

KVLOUPE_VECTOR_CLONES
double squared_norm(const float* row, std::size_t d) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t c = 0; c < d; ++c) {
    const auto x = static_cast<double>(row[c]);
    sum += x * x;
  }
  return sum;
}

KVLOUPE_VECTOR_CLONES
bool all_finite(const float* values, std::size_t count) {
  float sum = 0.0F;  // of zeros, unless a value times 0 is not a number
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) sum += 0.0F * values[i];
  return sum == 0.0F;
}

KVLOUPE_VECTOR_CLONES
void add_row(double* sums, const float* row, double factor, std::size_t d) {
#pragma omp simd
  for (std::size_t c = 0; c < d; ++c) sums[c] += factor * static_cast<double>(row[c]);
}

KVLOUPE_VECTOR_CLONES
void add_rows(double* sums, const float* values, std::ptrdiff_t stride,
              std::span<const std::int32_t> which, std::span<const double> factors, std::size_t d) {
  std::size_t first = 0;
#ifdef __GNUC__
  for (; first + kLanes * kVectors <= d; first += kLanes * kVectors) {
    Doubles own[kVectors];
    std::memcpy(own, sums + first, sizeof(own));
    for (std::size_t j = 0; j < which.size(); ++j) {
      const float* row = values + which[j] * stride + first;
      for (std::size_t v = 0; v < kVectors; ++v) {
        Floats part;
        std::memcpy(&part, row + v * kLanes, sizeof(part));
        own[v] += factors[j] * __builtin_convertvector(part, Doubles);
      }
    }
    std::memcpy(sums + first, own, sizeof(own));
  }
#endif
  for (std::size_t j = 0; j < which.size() && first < d; ++j) {
    const float* row = values + which[j] * stride;
#pragma omp simd
    for (std::size_t c = first; c < d; ++c) sums[c] += factors[j] * static_cast<double>(row[c]);
  }
}

KVLOUPE_VECTOR_CLONES
double squared_distance(const double* point, const float* row, std::size_t d) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t c = 0; c < d; ++c) {
    const double apart = point[c] - static_cast<double>(row[c]);
    sum += apart * apart;
  }
  return sum;
}

}  // namespace kvloupe
