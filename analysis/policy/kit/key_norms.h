#pragma once

#include <cmath>
#include <vector>

#include "analysis/math/numeric/float_rows.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/rows.h"

namespace kvloupe {

/// ‖k_i‖₂ of one head's cache, kept across steps: only new rows are computed.
class KeyNorms {
 public:
  /// Computes the norms of new rows and calls `added(row)` for each of these rows.
  template <typename Added>
  void observe(const MatrixView& keys, const Added& added) {
    norms_.resize(static_cast<std::size_t>(keys.rows()), kUnknown);
    for (std::size_t row = 0; row < norms_.size(); ++row) {
      if (norms_[row] >= 0.0F) continue;
      const float* key = keys.data() + static_cast<Eigen::Index>(row) * keys.outerStride();
      norms_[row] =
          static_cast<float>(std::sqrt(squared_norm(key, static_cast<std::size_t>(keys.cols()))));
      added(static_cast<Eigen::Index>(row));
    }
  }

  /// Calls `removed(row)` for each known row that leaves or whose key a merge will change, then
  /// forgets these rows.
  template <typename Removed>
  void retain(const HeadDecision& decision, const Removed& removed) {
    for (const Merge& merge : decision.merges) {
      if (merge.key.empty()) continue;
      removed(static_cast<Eigen::Index>(merge.into));
      norms_[static_cast<std::size_t>(merge.into)] = kUnknown;
    }
    if (decision.kept.size() == norms_.size()) return;
    std::size_t next = 0;
    for (std::size_t row = 0; row < norms_.size(); ++row) {
      if (next < decision.kept.size() && static_cast<std::size_t>(decision.kept[next]) == row) {
        ++next;
      } else if (norms_[row] >= 0.0F) {  // else it was never added as it now is
        removed(static_cast<Eigen::Index>(row));
      }
    }
    keep_rows(norms_, decision.kept);
  }

  const std::vector<float>& values() const { return norms_; }
  float operator[](Eigen::Index row) const { return norms_[static_cast<std::size_t>(row)]; }

 private:
  static constexpr float kUnknown = -1.0F;
  std::vector<float> norms_;
};

}  // namespace kvloupe
