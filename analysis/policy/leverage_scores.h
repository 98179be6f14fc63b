#pragma once

#include <cstdint>

#include <Eigen/Core>

namespace kvloupe {

/// How statistical leverage is estimated (Compactor).
struct LeverageRule {
  int sketch = 48;      // columns of a random projection; 0: the keys themselves
  double ridge = 0.01;  // added to the diagonal of the Gram matrix
  std::uint64_t seed = 0;
};

/// x_i (XᵀX + ridge I)⁻¹ x_iᵀ of each row, with X = (K − the mean row) Φ: [n], never below 0. Φ [d,
/// sketch] has independent normal entries of variance 1/sketch, drawn from seed, layer and head; if
/// the sketch is not smaller than d, X = K − the mean row. Computed in double.
Eigen::VectorXd leverage_scores(const Eigen::MatrixXd& keys, const LeverageRule& rule, int layer,
                                int head);

/// Entry (row, column) of Φ without its variance: standard normal, by Box and Muller's formula from
/// two hashed numbers.
double sketch_entry(std::uint64_t seed, int layer, int head, int row, int column);

}  // namespace kvloupe
