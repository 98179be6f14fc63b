#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/policy/policy.h"

namespace kvloupe {

/// One head's cache as a model holds it: the present entries side by side, in token order.
class HeadCache {
 public:
  /// Values are held only where asked for.
  HeadCache(Eigen::Index head_dim, bool with_values);

  /// Appends tokens [block.first, block.end): their keys (rotated) and values [m,d].
  void append(const Block& block, const MatrixView& keys, const MatrixView& values);
  /// Carries out merges (policy.h): rows of the cache as it is, before keep(). Values must be held.
  void merge(std::span<const Merge> merges);
  /// Keeps the rows given, ascending.
  void keep(std::span<const std::int32_t> rows);

  /// Valid until the next append(), merge() or keep().
  CacheView view() const;
  /// Whether any entry was ever merged: keys and values may no longer be those of their tokens.
  bool merged() const { return merged_; }
  const std::vector<std::int32_t>& tokens() const { return tokens_; }

 private:
  std::vector<std::int32_t> tokens_;
  Matrix keys_;                   // [capacity,d]; the first tokens_.size() rows count
  Matrix values_;                 // [capacity,d] or [0,d]
  std::vector<float> log_sizes_;  // [n]; empty while all are zero
  bool with_values_;
  bool merged_ = false;
};

}  // namespace kvloupe
