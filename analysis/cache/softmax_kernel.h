#pragma once

#include <cstddef>

namespace kvloupe {

/// logits[i] ← exp(scale·logits[i] − max_j scale·logits[j]) for the n entries; returns their sum.
/// Float32 exponentials (relative error below 3e-7), the sum in float64 across chunks. scale > 0.
double exponentials(float* logits, std::size_t n, float scale);

/// sums[i] += factor · values[i]
void add_scaled(float* sums, const float* values, std::size_t n, float factor);

}  // namespace kvloupe
