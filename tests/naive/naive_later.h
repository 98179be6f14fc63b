#pragma once
// Attention by distance and later attention in plain double loops that read like the formulas.

#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe::naive {

/// The angle of each pair of coordinates: θ^(−2j/d), for models without scaling or partial
/// rotation.
std::vector<double> rope_angles(const ModelInfo& model);
/// x [d] rotated to a position.
std::vector<double> rotated(const std::vector<double>& x, double position, const ModelInfo& model);

/// By distance, up to the shorter of T and the window.
struct ByDistance {
  std::vector<double> kernel;            // of the means before RoPE
  std::vector<double> kernel_attention;  // softmax over what each query sees, mean over the queries
  std::vector<double> logit;             // mean over the pairs at the distance
  std::vector<double> attention;         // the same
};
/// queries, keys [T,d]; attention A[q][i] as full_attention() gives it.
ByDistance by_distance(const Matrix& queries, const Matrix& keys, const ModelInfo& model,
                       double scale, int window, const std::vector<std::vector<double>>& attention);

/// Mean of A[q][token] over the queries q ≥ first.
double later_attention(const std::vector<std::vector<double>>& attention, int token, int first);

}  // namespace kvloupe::naive
