#pragma once

#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/math/numeric/logit_rule.h"
#include "analysis/math/rope.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// One query head's attention at each distance Δ (query position less key position): as its mean
/// query and mean key before RoPE say, and as the states have it. All vectors are by distance: [D],
/// D = T, or the window or chunk where that is shorter.
///
/// The mean query q̄ and the mean key k̄ are over all T tokens, with the rotation undone. RoPE turns
/// their product into a function of Δ alone, Σ_f Re(q̄_f k̄_f* e^{iΔω_f}) over the pairs of
/// coordinates f (as complex numbers) plus the product of the coordinates that are not rotated:
/// DuoAttention's and TriAttention's picture of a head, and the mean of expected attention.
struct DistanceKernel {
  std::vector<double> logit;           // of q̄ and k̄: the rule's logit of q̄ᵀ R(Δ) k̄
  std::vector<double> attention;       // softmax of these, mean over the queries that see so far
  std::vector<double> mean_logit;      // measured: mean over all pairs at the distance
  std::vector<double> mean_attention;  // measured: the same
  /// Measured attention as parts of a query's whole, means over all T queries: to the first `sinks`
  /// tokens, and to others at each distance. A sink logit's part is in neither.
  double to_sinks = 0.0;
  std::vector<double> to_others;
};

/// The first tokens that count as sinks here (StreamingLLM's default).
inline constexpr int kKernelSinks = 4;

/// queries, keys [T,d] of one query head and the head it reads, rotated to their token index.
/// O(T²·d) in tiles. Checks progress.
DistanceKernel distance_kernel(const MatrixView& queries, const MatrixView& keys, const Rope& rope,
                               const LogitRule& rule, const Reach& reach, Progress& progress);

/// The shortest window w that, with the sinks, holds this share of the measured attention: to_sinks
/// + Σ_{Δ<w} to_others[Δ] ≥ share · all, means over the query heads. At most D; 0 where the sinks
/// are enough.
int needed_window(std::span<const DistanceKernel> kernels, double share);

}  // namespace kvloupe
