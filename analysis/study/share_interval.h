#pragma once

#include <span>
#include <vector>

#include "analysis/study/bootstrap.h"

namespace kvloupe {

/// Wilson's interval of a share (Wilson 1927): hits of count, at least one; 95 %. Unlike the
/// bootstrap's, it has a width where all values are equal. Throws std::invalid_argument without a
/// value.
MeanInterval wilson_share(long hits, long count);

/// The interval of a mean: wilson_share() where every value is 0 or 1, else bootstrap_mean().
MeanInterval mean_interval(std::span<const double> values);

/// The mean of independent means, and its interval from theirs: mean ∓ √(Σ ((mean_i − end_i) / k)²)
/// over the lower and the upper ends (MOVER; Zou and Donner 2008, Statistics in Medicine 27,
/// equations 2 and 3, for the weights 1/k). Throws std::invalid_argument without a mean.
MeanInterval mean_of_means(std::span<const MeanInterval> means);

}  // namespace kvloupe
