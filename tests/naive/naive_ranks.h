#pragma once

#include <vector>

namespace kvloupe::naive {

/// Mean ranks [policies] of values [prompts][policies]: a rank is 1, and one more for each better
/// value and a half for each equal one.
std::vector<double> mean_ranks(const std::vector<std::vector<double>>& values,
                               bool larger_is_better);

/// Friedman's χ² with ties: N² Σ_j (R̄_j − r̄)² divided by the sum over the prompts of the variance
/// of their ranks (n − 1).
double friedman(const std::vector<std::vector<double>>& values, bool larger_is_better);

/// P(F ≥ x) as one less the integral of the density of F from 0 to x.
double f_tail(double x, double d1, double d2);

}  // namespace kvloupe::naive
