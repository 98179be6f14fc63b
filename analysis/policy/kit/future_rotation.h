#pragma once

#include <vector>

#include <Eigen/Core>

#include "analysis/metric/rope.h"

namespace kvloupe {

/// The mean rotation of RoPE over the positions from `first` on, `count` of them: what becomes, on
/// average, of a query that is asked there. A pair (x, y) is multiplied, as x + iy, by the mean of
/// exp(i p ω); coordinates that RoPE does not rotate stay.
class FutureRotation {
 public:
  FutureRotation(const Rope& rope, int first, int count);

  Eigen::VectorXd of(const Eigen::VectorXd& query) const;
  /// R̄ Σ R̄ᵀ of a covariance [d,d].
  Eigen::MatrixXd of(const Eigen::MatrixXd& covariance) const;

 private:
  struct Turn {
    Rope::Pair pair;
    double real, imaginary;
  };
  std::vector<Turn> turns_;
};

}  // namespace kvloupe
