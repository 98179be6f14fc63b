#pragma once

#include <cstdint>
#include <span>

#include "analysis/matrix.h"

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

}  // namespace kvloupe
