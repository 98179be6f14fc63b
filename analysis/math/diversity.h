#pragma once

#include <cstdint>
#include <span>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// The quantity that KeyDiff minimises (KeyDiff, §3.3): the similarity of the keys of a retained
/// set S.
struct Diversity {
  /// Σ_{i,j∈S} k̂_i·k̂_j = ‖Σ_S k̂_i‖²: the objective, lower = more diverse.
  double objective = 0.0;
  /// The mean cosine of two different keys of S, (objective − Σ_S ‖k̂_i‖²)/(|S|(|S| − 1)):
  /// comparable across budgets. NaN where S has fewer than two.
  double mean_cosine = 0.0;
  /// ‖μ(K̂_S) − μ(K̂)‖: KeyDiff uses the mean of the whole cache in place of the mean of S; this is
  /// the distance between the two. NaN for an empty S.
  double relaxation_gap = 0.0;
};

/// keys [T,d]; `present`: rows of the cache before the step's eviction, `retained`: S, both as rows
/// of `keys`. Zero keys count as zero directions. O(|present|·d), in double.
Diversity key_diversity(const MatrixView& keys, std::span<const std::int32_t> present,
                        std::span<const std::int32_t> retained);

/// The volume that a set of key rows spans.
struct LogDeterminant {
  double value = 0.0;  // Σ log λ over the eigenvalues λ of KᵀK that count; 0 without any
  int rank = 0;        // how many count
};

/// Log pseudo-determinant of the Gram matrix of n key rows, keys [n,d] (KeyDiff, figure 5). KKᵀ is
/// singular where n > d, so the eigenvalues of KᵀK with λ > max(n,d)·ε·λ_max are taken, ε the
/// double epsilon; KᵀK and KKᵀ share them, and the smaller of the two is decomposed, in double.
/// n = 0 or all-zero keys: value 0, rank 0.
LogDeterminant log_pseudo_determinant(const MatrixView& keys);

}  // namespace kvloupe
