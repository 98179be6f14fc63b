#pragma once
// What checks and the trainer need of a model beside the product: whole sequences at once, and its
// weights as a file.

#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capture/model/transformer.h"

namespace kvloupe {

/// Called with each layer's states as they are computed.
using StatesHook = std::function<void(int layer, const StateTensors& states)>;
/// ids [b,m] int64, positions 0 … m−1, causal and within the model's window -> logits
/// [b,m,vocab]. Differentiable with respect to every weight that asks for it.
at::Tensor run_whole(const Transformer& model, const at::Tensor& ids, const StatesHook& hook = {});

/// Causal softmax rows of whole sequences, float32 [b,Hq,m,m]: row = query, oldest first. With sink
/// logits a row sums to less than 1.
at::Tensor causal_attention(const StateTensors& states, const AttentionRule& rule);
/// The same with a scale alone. Each query sees the last `window` keys up to its own; 0: all.
inline at::Tensor causal_attention(const StateTensors& states, double scale,
                                   std::int64_t window = 0) {
  return causal_attention(states, AttentionRule{scale, 0.0, window, {}});
}

/// Writes tensors (F32, F16 or BF16, any device) in the given order, with `metadata` in the header.
/// The file is written beside the target, fsynced and renamed: the target is either unchanged or
/// complete. Throws FileError: folder missing or unwritable, disk full; WorkError for another
/// dtype.
void write_safetensors(const std::filesystem::path& target,
                       const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

}  // namespace kvloupe
