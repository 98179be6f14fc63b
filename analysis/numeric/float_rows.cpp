#include "analysis/numeric/float_rows.h"

#include "analysis/vector_clones.h"

namespace kvloupe {

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

}  // namespace kvloupe
