#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kvloupe {

/// The keys and values of one layer, per key-value head, because a policy may leave heads with
/// different entries. Keys are rotated to their token index. Room for `capacity` entries per head
/// is allocated at creation; more is allocated when needed.
class LayerCache {
 public:
  /// `like` gives dtype and device.
  LayerCache(std::int64_t heads, std::int64_t head_dim, std::int64_t capacity,
             const at::TensorOptions& like);

  std::int64_t heads() const { return keys_.size(0); }
  /// Adds a block's entries to every head: key (rotated) and value [Hk,m,d].
  void append(const at::Tensor& key, const at::Tensor& value);
  /// Number of entries of a head: n.
  std::int64_t length(std::int64_t head) const { return std::ssize(tokens(head)); }
  /// Tokens appended so far, whether or not they are still in the cache.
  std::int64_t seen() const { return seen_; }
  /// The token of each of a head's entries, ascending: [n].
  const std::vector<std::int32_t>& tokens(std::int64_t head) const {
    return tokens_[static_cast<std::size_t>(head)];
  }
  /// A head's entries, oldest first: [n,d], sharing the cache's storage.
  at::Tensor keys(std::int64_t head) const { return entries(keys_, head); }
  at::Tensor values(std::int64_t head) const { return entries(values_, head); }
  /// The numbers added to the logits of a head's entries, float32 [n]; undefined if all are zero.
  at::Tensor log_sizes(std::int64_t head) const;

  /// Keeps a head's entries at these rows, ascending.
  void keep(std::int64_t head, std::span<const std::int32_t> rows);
  /// Replaces the key and value [d] (float32) of an entry; an empty span leaves the old one.
  void replace(std::int64_t head, std::int64_t row, std::span<const float> key,
               std::span<const float> value);
  /// Replaces the keys, or the values, of a head's entries from row `first` on: [rows,d], float32.
  void replace_keys(std::int64_t head, std::int64_t first, std::span<const float> keys);
  void replace_values(std::int64_t head, std::int64_t first, std::span<const float> values);
  /// [n]; empty: all zero. Entries appended later have 0.
  void set_log_sizes(std::int64_t head, std::span<const float> log_sizes);

  /// Takes over the entries of another cache of the same layer; the storage stays its own.
  void take(const LayerCache& other);
  /// The same entries in a storage of their own. (A plain copy shares the storage.)
  LayerCache copy() const;

 private:
  at::Tensor entries(const at::Tensor& held, std::int64_t head) const {
    return held.as_strided({length(head), held.size(2)}, {held.size(2), 1}, head * held.stride(0));
  }
  void reserve(std::int64_t needed);

  at::Tensor keys_;    // [Hk,capacity,d]
  at::Tensor values_;  // [Hk,capacity,d]
  std::int64_t seen_ = 0;
  std::vector<std::vector<std::int32_t>> tokens_;  // [Hk] of [n]
  std::vector<std::vector<float>> log_sizes_;      // [Hk] of [n], or empty
};

}  // namespace kvloupe
