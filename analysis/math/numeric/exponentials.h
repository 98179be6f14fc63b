#pragma once
// The loops that attention over long rows spends its time in, for the widest vectors the processor
// has.

#include <cstddef>
#include <span>

namespace kvloupe {

/// The largest of the values; there must be one.
float largest_of(std::span<const float> values);

/// values[i] ← exp(scale·(values[i] − shift)); returns their sum. For scale > 0 and values up to
/// shift (softmax with its largest logit, or its log-sum-exp, as shift). Float32 exponentials:
/// relative error below 3e-7, and 0 below exp(−87.7); the sum in float64 over short stretches.
double exponentials(std::span<float> values, float shift, float scale = 1.0F);

/// sums[i] += factor · values[i]
void add_scaled(float* sums, const float* values, std::size_t n, float factor);

}  // namespace kvloupe
