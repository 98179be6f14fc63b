#include "analysis/trace/cache_bytes.h"

namespace kvloupe {

double bytes_of_entry(const ModelInfo& layer) {
  constexpr double kNumber = 2.0;  // bytes
  // Values that are a part of the keys are not stored again.
  return kNumber * (layer.head_dim + (layer.value_is_key_prefix ? 0 : layer.value_width()));
}

CacheBytes cache_bytes(const Trace& trace) {
  CacheBytes bytes;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    bytes.states += static_cast<double>(model.state_bytes);
    if (!model.stores()) continue;
    bytes.per_token += model.num_kv_heads * bytes_of_entry(model);
  }
  return bytes;
}

}  // namespace kvloupe
