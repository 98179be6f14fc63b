#include "analysis/trace/cache_bytes.h"

namespace kvloupe {

CacheBytes cache_bytes(const Trace& trace) {
  constexpr double kNumber = 2.0;  // bytes
  CacheBytes bytes;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    bytes.states += static_cast<double>(model.state_bytes);
    if (!model.stores()) continue;
    // Values that are a part of the keys are not stored again.
    const int numbers = model.head_dim + (model.value_is_key_prefix ? 0 : model.value_width());
    bytes.per_token += kNumber * model.num_kv_heads * numbers;
  }
  return bytes;
}

}  // namespace kvloupe
