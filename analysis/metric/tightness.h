#pragma once

namespace kvloupe {

/// ℒ/θ: how tight the bound is; 1 if it is exact. NaN if it is undefined: if θ is 0 because no
/// evicted entry had attention, if θ is so small that its terms have lost their digits, or if there
/// is no bound (a merged cache). output_perturbation() computes both without cancellation, so no
/// threshold relative to the norms is needed: θ is never only rounding error.
double tightness(double perturbation, double bound);

}  // namespace kvloupe
