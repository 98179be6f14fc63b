#pragma once

#include <span>
#include <vector>

namespace kvloupe {

/// Policies ranked on each prompt (Friedman 1937; Demšar 2006, Statistical Comparisons of
/// Classifiers over Multiple Data Sets, section 3.2).
struct PolicyRanks {
  int prompts = 0;                 // N
  std::vector<double> mean_ranks;  // [k] 1 is best; equal values share the mean of their ranks
  /// Friedman's χ²_F with the correction for ties: (k−1) Σ_j (R_j − N(k+1)/2)² divided by Σ r² −
  /// N k (k+1)²/4, R_j the sum of a policy's ranks (Conover 1999, section 5.8). 0 where every
  /// prompt gives all policies the same value.
  double chi_squared = 0.0;
  /// Iman and Davenport's F_F = (N−1) χ²_F / (N(k−1) − χ²_F), with k−1 and (k−1)(N−1) degrees of
  /// freedom; infinite where all prompts agree.
  double f = 0.0;
  double p = 1.0;  // of F_F: that policies which do not differ are ranked so differently
  /// Nemenyi's critical difference of two mean ranks, q_α √(k(k+1)/(6N)), q_α the quantile of the
  /// studentized range with infinitely many degrees of freedom, divided by √2; computed, not read
  /// from a table.
  double critical_difference = 0.0;
};

inline constexpr double kRankAlpha = 0.05;

/// values [prompts, policies], row by row, all finite; at least two of each. Throws
/// std::invalid_argument otherwise.
PolicyRanks rank_policies(std::span<const double> values, int policies, bool larger_is_better,
                          double alpha = kRankAlpha);

}  // namespace kvloupe
