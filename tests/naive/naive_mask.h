#pragma once
// Which tokens a query sees, as the formula has it.

#include "analysis/trace/model_info.h"

namespace kvloupe::naive {

/// 0 <= query − key < W with a window of W tokens, ⌊query / C⌋ = ⌊key / C⌋ with chunks of C. A
/// sequence with chunks goes on as it ended: a query after its last token is of the last chunk.
inline bool sees(const ModelInfo& model, int query, int key) {
  if (key > query) return false;
  if (model.sliding_window > 0 && query - key >= model.sliding_window) return false;
  if (model.chunk_size == 0) return true;
  if (model.chunked_tokens > 0 && query >= model.chunked_tokens) query = model.chunked_tokens - 1;
  return query / model.chunk_size == key / model.chunk_size;
}

}  // namespace kvloupe::naive
