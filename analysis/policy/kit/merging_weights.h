#pragma once

#include <span>
#include <vector>

namespace kvloupe {

/// Weights of a merging set's members from their distances ‖k_p − k_i‖ to the pivot (whose distance
/// is 0): g_i = exp(−distance²/(2σ²)), w_i = g_i/Σg (KVMerger, eq. 6 and 7). A distance of 0 has g
/// = 1 for every σ.
std::vector<double> gaussian_weights(std::span<const double> distances, double sigma);

/// Eq. 6 as printed: the σ that equals Σg/(√2|S|), which depends on σ itself. If there are several,
/// the largest: the iteration starts from the largest possible right side, 1/√2, and falls to this
/// σ.
double sigma_of_equation_6(std::span<const double> distances);

/// Our reading of eq. 6: Σ‖k_p − k_i‖/(√2|S|).
double sigma_of_distances(std::span<const double> distances);

}  // namespace kvloupe
