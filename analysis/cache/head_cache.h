#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// One head's cache as a model holds it: the entries side by side, in token order. An entry that no
/// later query sees is hidden after the step's queries have attended to it, and removed by the next
/// keep().
class HeadCache {
 public:
  /// Values are held only if asked for.
  HeadCache(Eigen::Index key_dim, Eigen::Index value_dim, bool with_values);

  /// Takes room for so many entries at once.
  void reserve(Eigen::Index entries);
  /// Appends tokens [block.first, block.end): their keys (rotated) and values [m,d of each].
  void append(const Block& block, const MatrixView& keys, const MatrixView& values);
  /// Number of entries of tokens before `first`.
  int count_before(std::int32_t first) const;
  /// Hides the first `count` entries; row numbers then start after them.
  void hide_first(int count) { hidden_ = static_cast<std::size_t>(count); }
  /// Makes synthetic entries (policy.h); their rows are those of the cache before keep(). Values
  /// must be held.
  void merge(std::span<const Merge> merges);
  /// Keeps the rows given, ascending.
  void keep(std::span<const std::int32_t> rows);

  /// Valid until the next append(), merge() or keep().
  CacheView view() const { return view_from(hidden_); }
  /// The same with the hidden entries, which come first.
  CacheView whole() const { return view_from(0); }
  int hidden() const { return static_cast<int>(hidden_); }
  /// Whether any entry was ever merged; if so, keys and values may no longer be those of their
  /// tokens.
  bool merged() const { return merged_; }
  std::span<const std::int32_t> tokens() const { return std::span(tokens_).subspan(hidden_); }

 private:
  CacheView view_from(std::size_t first) const;

  std::vector<std::int32_t> tokens_;
  Matrix keys_;                   // [capacity,d]; the first tokens_.size() rows count
  Matrix values_;                 // [capacity,d] or [0,d]
  std::vector<float> log_sizes_;  // [n]; empty while all are zero
  bool with_values_;
  bool merged_ = false;
  std::size_t hidden_ = 0;
};

}  // namespace kvloupe
