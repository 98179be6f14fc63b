#pragma once

#include <filesystem>
#include <vector>

#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"
#include "capture/model/model_config.h"

namespace kvloupe {

class Transformer;

/// Describes a model for a trace; the name is that of its folder, or what its file says.
ModelInfo describe_model(const ModelConfig& config, const std::filesystem::path& folder);

/// Attributes of the layers that differ from `/model`, [L]; empty if none does.
/// `sink_logits`: see read_sink_logits().
std::vector<LayerAttributes> layer_attributes(const ModelConfig& config,
                                              std::vector<std::vector<float>> sink_logits);

/// `model` with the rotation and the window of one layer.
ModelInfo layer_model(const ModelInfo& model, const ModelConfig& config, int layer);
/// The same of every layer [L].
std::vector<ModelInfo> layer_models(const ModelInfo& model, const ModelConfig& config);

/// How the queries of a layer attend.
LayerAttention layer_attention(const Transformer& model, int layer);

}  // namespace kvloupe
