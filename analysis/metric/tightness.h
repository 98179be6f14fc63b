#pragma once

namespace kvloupe {

/// ℒ/θ: how much of the bound is there, 1 where it is exact. NaN where it is undefined: where θ is
/// 0, for nothing that had attention was evicted, or so small that its terms have lost their
/// digits, and where there is no bound (a merged cache). output_perturbation() computes both
/// without cancellation, so that no threshold relative to the norms is needed: θ is never mere
/// rounding.
double tightness(double perturbation, double bound);

}  // namespace kvloupe
