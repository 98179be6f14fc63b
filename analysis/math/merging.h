#pragma once

#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"

namespace kvloupe {

/// How well one entry represents the members of a merging set. Zero keys have cosine 0.
struct MergeMeasures {
  double least_cosine = 0.0;         // of any two members' keys
  double effective_members = 0.0;    // 1/Σw²: 1 if only the pivot counts, |S| at equal weights
  double least_member_cosine = 0.0;  // of the merged key and a member's
  double mean_member_cosine = 0.0;
};

/// keys [n,d] as they were before the merge; members: rows, at least one; weights [members], their
/// sum 1; merged_key [d].
MergeMeasures merge_measures(const MatrixView& keys, std::span<const int> members,
                             std::span<const float> weights, std::span<const float> merged_key);

/// Cosine of row `token` and the row `distance` before it, for distances 1 to `most`: [most], of
/// keys or values (KVMerger, figure 3a). NaN if that row does not exist.
std::vector<double> local_similarity(const MatrixView& rows, Eigen::Index token, int most);

/// The mean of this cosine over all rows that have such a neighbour: [most].
std::vector<double> mean_local_similarity(const MatrixView& rows, int most);

/// The same at one distance.
double mean_similarity_at(const MatrixView& rows, int distance);

}  // namespace kvloupe
