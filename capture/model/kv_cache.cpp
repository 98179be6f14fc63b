#include "capture/model/kv_cache.h"

namespace kvloupe {

LayerCache::LayerCache(std::int64_t heads, std::int64_t head_dim, std::int64_t capacity,
                       const at::TensorOptions& like)
    : keys_(at::empty({heads, capacity, head_dim}, like)),
      values_(at::empty({heads, capacity, head_dim}, like)),
      lengths_(static_cast<std::size_t>(heads), 0) {}

void LayerCache::append(const at::Tensor& key, const at::Tensor& value) {
  const std::int64_t m = key.size(1);
  for (std::int64_t head = 0; head < heads(); ++head) {
    std::int64_t& length = lengths_[static_cast<std::size_t>(head)];
    keys_[head].slice(0, length, length + m).copy_(key[head]);
    values_[head].slice(0, length, length + m).copy_(value[head]);
    length += m;
  }
}

}  // namespace kvloupe
