#pragma once

#include <vector>

#include "analysis/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// One rotary pair j over all neighbours at a distance (KVMerger, lemma 3.2). If two keys at
/// positions m and n are collinear after RoPE, their pairs before RoPE have cosine cos((m − n)θ_j),
/// exactly.
struct PairRotation {
  double predicted = 0.0;  // cos((m − n)θ_j), θ_j = θ^(−2j/d)
  double before = 0.0;     // mean cosine of the pairs before RoPE; NaN without neighbours
  double after = 0.0;      // mean cosine of the pairs as cached
  long neighbours = 0;     // number of neighbours in the means: neither pair is zero
  /// Share of the neighbours whose cosine before RoPE lies in the paper's interval [cos(m − n), 1],
  /// closed. The interval has a meaning only for |m − n| <= 3; beyond that cos is not monotone, and
  /// the share is NaN.
  double inside = 0.0;
};

/// keys [T,d] after RoPE, row = position; neighbours i and i + distance whose whole keys have a
/// cosine of at least `least_cosine`. [d/2], pairs as the model pairs coordinates. O(T·d), double.
/// Throws std::invalid_argument for a distance below 1, WorkError if RoPE cannot be undone.
std::vector<PairRotation> pair_rotations(const MatrixView& keys, const ModelInfo& model,
                                         int distance, double least_cosine = -1.0);

}  // namespace kvloupe
