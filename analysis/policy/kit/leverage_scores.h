#pragma once

#include <cstdint>
#include <vector>

#include <Eigen/Core>

#include "analysis/math/rope.h"
#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// How statistical leverage is estimated (Compactor).
struct LeverageRule {
  int sketch = 48;      // columns of a random projection; 0: the keys themselves
  double ridge = 0.01;  // added to the diagonal of the Gram matrix
  std::uint64_t seed = 0;
};

/// x_i (XᵀX + ridge I)⁻¹ x_iᵀ of keys before RoPE, with X = (K − the mean row) Φ. Φ [d,sketch] has
/// independent normal entries of variance 1/sketch, drawn from seed, layer and head; if the sketch
/// is not smaller than d, X = K − the mean row. In double. K Φ of one head's cache is kept across
/// steps: only new rows are turned back and projected.
class LeverageKeys {
 public:
  /// Throws WorkError where the rotation cannot be undone.
  LeverageKeys(const ModelInfo& model, const LeverageRule& rule, int layer, int head);

  /// Takes up the rows that are new.
  void observe(const CacheView& cache);
  /// Scores of the entries [first, first + count), with their own mean and matrix: [count], never
  /// below 0.
  std::vector<double> scores(Eigen::Index first, Eigen::Index count) const;
  /// Forgets rows that were not kept, and those whose key a merge will change.
  void retain(const CacheView& cache, const HeadDecision& decision);
  /// The scores of all entries: [n].
  std::vector<float> score(const CacheView& cache) const;

 private:
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  TurnedBack turned_back_;
  double ridge_;
  Eigen::MatrixXd projection_;  // Φ, [d,sketch]; empty: none
  Rows rows_;                   // [n,sketch] or [n,d]
  std::vector<char> known_;     // [n]
};

/// One of these for each head of a layer, by the parameters `sketch`, `ridge` and `seed`.
std::vector<LeverageKeys> leverage_of_heads(const SpecPart& part, const LayerContext& context);

/// Entry (row, column) of Φ without its variance: standard normal, by Box and Muller's formula from
/// two hashed numbers.
double sketch_entry(std::uint64_t seed, int layer, int head, int row, int column);

}  // namespace kvloupe
