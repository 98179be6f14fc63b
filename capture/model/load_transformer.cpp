#include "capture/model/load_transformer.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/trace/model_files.h"
#include "capture/checkpoint/gguf_weights.h"
#include "capture/checkpoint/safetensors.h"
#include "capture/gguf/gguf_config.h"
#include "capture/gguf/gguf_model.h"
#include "capture/model/available_memory.h"
#include "capture/model/config_reader.h"
#include "capture/model/stored_weights.h"

namespace kvloupe {

namespace {
constexpr std::uintmax_t kLargestConfig = 16U << 20U;

/// The publisher's settings for generation, if the file exists: a chat model may end its turn with
/// tokens other than those of config.json.
void add_generation_config(const std::filesystem::path& path, ModelConfig& config) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return;
  const nlohmann::json root =
      parse_config_object(read_file(path, kLargestConfig), path.string(), "a generation config");
  const std::vector<std::int64_t> ids = ConfigReader(root, path.string()).tokens("eos_token_id");
  std::vector<std::int64_t>& all = config.eos_token_ids;
  all.insert(all.end(), ids.begin(), ids.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

/// The share of free memory that weights may take; caches and states need the rest.
constexpr double kShareForWeights = 0.75;

ModelConfig read_gguf_config(const std::filesystem::path& path) {
  const GgufModel model(path);
  const GgufMetadata metadata = model.metadata();
  ModelConfig config = parse_model_config(gguf_config(model), path.string());
  config.name = metadata.text_if("general.name").value_or("");
  if (config.name.empty()) config.name = path.stem().string();
  // The file keeps a layer's experts in one tensor for each part, and Gemma's norms as they
  // multiply.
  if (config.experts.count > 0) config.layout = WeightLayout::stacked;
  config.norm_offset = 0.0;
  config.weights_format = "GGUF";
  config.weights_type = model.types();
  config.weights_file = path.filename().string();
  return config;
}

}  // namespace

std::shared_ptr<const WeightSource> open_weights(const std::filesystem::path& model,
                                                 const ModelConfig& config) {
  std::shared_ptr<const WeightSource> files;
  if (is_gguf_file(model)) {
    files = std::make_shared<GgufWeights>(model);
  } else {
    files = std::make_shared<Checkpoint>(model);
  }
  if (config.layout == WeightLayout::plain) return files;
  return std::make_shared<StoredWeights>(config, std::move(files));
}

std::vector<std::vector<float>> read_sink_logits(const std::filesystem::path& model,
                                                 const ModelConfig& config) {
  std::vector<std::vector<float>> all;
  if (!config.sink_logits) return all;
  const std::shared_ptr<const WeightSource> source = open_weights(model, config);
  for (std::int64_t layer = 0; layer < config.num_layers; ++layer) {
    const at::Tensor sinks =
        source->tensor(sink_logits_name(layer), {config.num_heads}, at::kFloat).contiguous();
    const auto* const first = sinks.data_ptr<float>();
    all.emplace_back(first, first + config.num_heads);
  }
  return all;
}

ModelConfig read_model_config(const std::filesystem::path& model) {
  std::error_code ignored;
  if (is_gguf_file(model)) return read_gguf_config(model);
  if (std::filesystem::is_regular_file(model, ignored)) {
    throw FileError(model.string(),
                    "is not a GGUF file; give a GGUF file or a Hugging Face model folder");
  }
  if (!std::filesystem::is_directory(model, ignored)) {
    throw FileError(model.string(),
                    "does not exist; a Hugging Face model folder or a GGUF file is expected");
  }
  const std::filesystem::path path = model / "config.json";
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw FileError(model.string(),
                    "does not contain config.json; a Hugging Face model folder is expected, or the "
                    "path of a GGUF file");
  }
  ModelConfig config = parse_model_config(read_file(path, kLargestConfig), path.string());
  add_generation_config(model / "generation_config.json", config);
  return config;
}

std::int64_t expanded_bytes(const WeightSource& source, const ModelConfig& config,
                            at::ScalarType type) {
  std::int64_t bytes = 0;
  for (const WeightShape& weight : weight_shapes(config)) {
    if (source.is_mapped(weight.name, type)) continue;
    std::int64_t numbers = 1;
    for (const std::int64_t size : weight.shape) numbers *= size;
    bytes += numbers * static_cast<std::int64_t>(c10::elementSize(type));
  }
  return bytes;
}

Transformer load_transformer(const std::filesystem::path& model, const ModelConfig& config,
                             at::ScalarType type, at::Device device, WeightStorage storage) {
  const std::shared_ptr<const WeightSource> source = open_weights(model, config);
  std::set<std::string> names;
  for (const WeightShape& weight : weight_shapes(config)) names.insert(weight.name);
  source->refuse_others(names, config.architecture);
  if (storage == WeightStorage::automatic) {
    const auto room = static_cast<double>(available_memory()) * kShareForWeights;
    const auto needed = static_cast<double>(expanded_bytes(*source, config, type));
    storage = device.is_cpu() && needed > room ? WeightStorage::packed : WeightStorage::expanded;
  }
  if (storage == WeightStorage::packed) return {config, source, type, device};
  Weights weights;
  for (const WeightShape& weight : weight_shapes(config)) {
    weights.emplace(weight.name, source->tensor(weight.name, weight.shape, type).to(device));
  }
  return {config, std::move(weights)};
}

}  // namespace kvloupe
