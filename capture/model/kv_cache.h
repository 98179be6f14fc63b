#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace kvloupe {

/// The keys and values of one layer, per key-value head, since a policy may leave heads with
/// different numbers of entries. Room for `capacity` entries per head is set aside at creation.
class LayerCache {
 public:
  /// `like` gives dtype and device.
  LayerCache(std::int64_t heads, std::int64_t head_dim, std::int64_t capacity,
             const at::TensorOptions& like);

  std::int64_t heads() const { return keys_.size(0); }
  /// Adds a block's entries to every head: key (rotated) and value [Hk,m,d].
  void append(const at::Tensor& key, const at::Tensor& value);
  /// Number of entries of a head: n.
  std::int64_t length(std::int64_t head) const { return lengths_[static_cast<std::size_t>(head)]; }
  /// A head's entries, oldest first: [n,d], sharing the cache's storage.
  at::Tensor keys(std::int64_t head) const { return keys_[head].slice(0, 0, length(head)); }
  at::Tensor values(std::int64_t head) const { return values_[head].slice(0, 0, length(head)); }

 private:
  at::Tensor keys_;    // [Hk,capacity,d]
  at::Tensor values_;  // [Hk,capacity,d]
  std::vector<std::int64_t> lengths_;
};

}  // namespace kvloupe
