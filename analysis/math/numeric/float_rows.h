#pragma once
// Loops over rows of float states that accumulate in double, for the widest vectors the processor
// has.

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvloupe {

/// Σ row[c]²
double squared_norm(const float* row, std::size_t d);

/// Whether all values are finite.
bool all_finite(const float* values, std::size_t count);

/// sums[c] += factor · row[c]
void add_row(double* sums, const float* row, double factor, std::size_t d);

/// The same for many rows, in their order and with the same bits: sums[c] += Σ_j factors[j] · row
/// which[j] of `values`, whose rows of d floats begin `stride` floats apart.
void add_rows(double* sums, const float* values, std::ptrdiff_t stride,
              std::span<const std::int32_t> which, std::span<const double> factors, std::size_t d);

/// Σ (point[c] − row[c])²
double squared_distance(const double* point, const float* row, std::size_t d);

}  // namespace kvloupe
