#include "capture/run/model_description.h"

#include <utility>

#include "capture/model/transformer.h"

namespace kvloupe {

ModelInfo describe_model(const ModelConfig& config, const std::filesystem::path& folder) {
  ModelInfo info;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(folder);
  info.name = config.name.empty() ? whole.filename().string() : config.name;
  info.architecture = config.architecture;
  info.num_layers = static_cast<int>(config.num_layers);
  info.num_heads = static_cast<int>(config.num_heads);
  info.num_kv_heads = static_cast<int>(config.num_kv_heads);
  info.head_dim = static_cast<int>(config.head_dim);
  info.hidden_size = static_cast<int>(config.hidden_size);
  info.vocab_size = static_cast<int>(config.vocab_size);
  info.rope_theta = config.rope_theta;
  info.rope_scaling = rope_scaling_json(config.rope_scaling);
  info.sliding_window = static_cast<int>(config.sliding_window);
  info.config = config.text;
  info.weights_format = config.weights_format;
  info.weights_type = config.weights_type;
  info.weights_file = config.weights_file;
  return info;
}

std::vector<LayerAttributes> layer_attributes(const ModelConfig& config,
                                              std::vector<std::vector<float>> sink_logits) {
  std::vector<LayerAttributes> all;
  bool differ = false;
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const LayerConfig& layer = config.layers[i];
    LayerAttributes own;
    own.attention_softcap = config.attention_softcap;
    if (layer.sliding_window != config.sliding_window) {
      own.sliding_window = static_cast<int>(layer.sliding_window);
    }
    if (!layer.rotates) {
      own.rope_theta = 0.0;
    } else if (layer.rope_theta != config.rope_theta || layer.rope_scaling != config.rope_scaling) {
      own.rope_theta = layer.rope_theta;
      own.rope_scaling = rope_scaling_json(layer.rope_scaling);
    }
    if (!sink_logits.empty()) own.sink_logits = std::move(sink_logits.at(i));
    differ = differ || own.attention_softcap > 0.0 || own.sliding_window || own.rope_theta ||
             !own.sink_logits.empty();
    all.push_back(std::move(own));
  }
  return differ ? all : std::vector<LayerAttributes>();
}

ModelInfo layer_model(const ModelInfo& model, const ModelConfig& config, int layer) {
  const LayerConfig& own = config.layer(layer);
  ModelInfo result = model;
  result.sliding_window = static_cast<int>(own.sliding_window);
  result.rope_theta = own.rope_theta;
  result.rope_scaling = own.rotates ? rope_scaling_json(own.rope_scaling) : kNoRotation;
  return result;
}

std::vector<ModelInfo> layer_models(const ModelInfo& model, const ModelConfig& config) {
  std::vector<ModelInfo> models;
  for (int layer = 0; layer < model.num_layers; ++layer)
    models.push_back(layer_model(model, config, layer));
  return models;
}

LayerAttention layer_attention(const Transformer& model, int layer) {
  const AttentionRule rule = model.attention(layer);
  LayerAttention attention(rule.scale);
  attention.softcap = rule.softcap;
  if (rule.sink_logits.defined()) {
    const at::Tensor sinks = rule.sink_logits.to(at::kCPU, at::kFloat).contiguous();
    const auto* const first = sinks.data_ptr<float>();
    attention.sink_logits.assign(first, first + sinks.numel());
  }
  return attention;
}

}  // namespace kvloupe
