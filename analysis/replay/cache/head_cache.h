#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/math/quantisation.h"
#include "analysis/policy/kit/policy.h"

namespace kvloupe {

/// The rows of a head's cache that one call of quantise() rounded.
struct RoundedRows {
  Block keys, values;
  bool any() const { return keys.size() > 0 || values.size() > 0; }
};

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

  /// The entries [first, end) whose key or value quantise() would change; no entry may be hidden.
  Block unquantised(const Quantisation& quantisation) const;
  /// Rounds to few bits what is older than the residual and was not rounded before; what groups
  /// along the entries waits until its group is whole. values_are_keys: values are a part of the
  /// keys (ModelInfo::value_is_key_prefix). Values must be held. Returns what was rounded now.
  RoundedRows quantise(const Quantisation& quantisation, bool values_are_keys);
  /// The entries held in few bits now.
  StoredEntries stored() const;

  /// Valid until the next append(), merge(), keep() or quantise().
  CacheView view() const { return view_from(hidden_); }
  /// The same with the hidden entries, which come first.
  CacheView whole() const { return view_from(0); }
  int hidden() const { return static_cast<int>(hidden_); }
  /// Whether any entry was ever merged or quantised; if so, keys and values may no longer be those
  /// of their tokens.
  bool changed() const { return changed_; }
  std::span<const std::int32_t> tokens() const { return std::span(tokens_).subspan(hidden_); }

 private:
  CacheView view_from(std::size_t first) const;

  std::vector<std::int32_t> tokens_;
  Matrix keys_;                   // [capacity,d]; the first tokens_.size() rows count
  Matrix values_;                 // [capacity,d] or [0,d]
  std::vector<float> log_sizes_;  // [n]; empty while all are zero
  bool with_values_;
  bool changed_ = false;
  std::size_t hidden_ = 0;
  /// The first entries, which are held in few bits.
  struct Rounded {
    Eigen::Index entries = 0;
    std::vector<Eigen::Index> groups;  // along the entries: how many of each group are left
  };
  static void keep(Rounded& rounded, std::span<const std::int32_t> kept);
  static Eigen::Index due(const Rounded& rounded, Eigen::Index old, bool by_channel, int group);
  Rounded rounded_keys_, rounded_values_;
};

}  // namespace kvloupe
