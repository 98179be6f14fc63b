#include "capture/run/model_description.h"

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

}  // namespace kvloupe
