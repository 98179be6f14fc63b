#pragma once

#include "analysis/trace/trace.h"

namespace kvloupe {

/// The bytes of the full cache of the trace's model in 16 bits, over all layers.
struct CacheBytes {
  double per_token = 0.0;  // keys and values of one token in every head of every cache
  double states = 0.0;     // states of fixed size, in the model's own type
};
CacheBytes cache_bytes(const Trace& trace);
/// The same of one entry, the key and the value of a token in one head of this layer's own cache.
double bytes_of_entry(const ModelInfo& layer);

}  // namespace kvloupe
