#pragma once

#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/trace/layer_attention.h"

namespace kvloupe {

/// Spearman's ρ: the correlation of the ranks, −1 to 1, correct with ties. NaN if either side has
/// fewer than two different values. Throws std::invalid_argument for different lengths.
double spearman(std::span<const double> a, std::span<const double> b);

/// A correlation and its 95 % interval.
struct CorrelationInterval {
  double rho = 0.0;
  double low = 0.0, high = 0.0;
};
/// Spearman's ρ with the interval tanh(artanh ρ ± 1.96 √((1 + ρ²/2)/(n − 3))) of Bonett and Wright
/// (2000). Ends are NaN for n < 4, and where ρ is. Throws as spearman().
CorrelationInterval spearman_interval(std::span<const double> a, std::span<const double> b);

/// How a key's similarity to the others relates to the attention it receives (KeyDiff, figure 2 and
/// §3.1: distinct keys receive more, so ρ < 0).
struct KeyAttention {
  std::vector<double> mean_cosines;  // [T] to the other keys
  std::vector<double> received;      // [T] mean over the queries that see it, mean over the group
  double correlation = 0.0;          // Spearman's ρ of the two
};

/// keys [T,d] of one head; queries: of each query head it serves, [T,d]; attention: of these query
/// heads, numbered from 0.
/// O(T·d) for the cosines, O(T²·d) in tiles for the attention. Throws Cancelled through progress.
KeyAttention key_attention(const MatrixView& keys, std::span<const Matrix> queries,
                           const LayerAttention& attention, const Reach& reach, Progress& progress);

}  // namespace kvloupe
