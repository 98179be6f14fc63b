#include "capture/model/load_transformer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "analysis/error.h"
#include "analysis/one_line.h"
#include "capture/checkpoint/safetensors.h"
#include "capture/model/config_reader.h"
#include "capture/tokenizer/read_file.h"

namespace kvloupe {

namespace {
constexpr std::uintmax_t kLargestConfig = 16U << 20U;

/// What a model's publisher says of generating with it, where the file is there: a chat model may
/// end its turn by other tokens than config.json names.
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

/// Weights of the model's own namespace that the config has no place for, such as a bias of a
/// projection without one: left out, they would change what the model computes.
void refuse_unused_weights(const Checkpoint& checkpoint, const Weights& used,
                           const ModelConfig& config) {
  for (const std::string& name : checkpoint.names()) {
    const std::string_view view = name;
    const bool belongs = view.starts_with("model.") || view.starts_with("lm_head.");
    // Frequencies of the rotation that older files carry follow from the config; a tied head is the
    // embedding, whatever the file holds.
    const bool harmless =
        view.ends_with(".rotary_emb.inv_freq") || (config.tied_head && view == "lm_head.weight");
    if (!belongs || harmless || used.count(name) != 0) continue;
    throw FileError(checkpoint.path().string(),
                    "contains the tensor " + in_one_line(name) + ", which a " +
                        config.architecture +
                        " with this config.json does not use; do the two files belong together?");
  }
}

}  // namespace

ModelConfig read_model_config(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw FileError(folder.string(),
                    "this folder does not exist; a Hugging Face model folder is expected");
  }
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw FileError(folder.string(),
                    "does not contain config.json; a Hugging Face model folder is expected");
  }
  ModelConfig config = parse_model_config(read_file(path, kLargestConfig), path.string());
  add_generation_config(folder / "generation_config.json", config);
  return config;
}

Transformer load_transformer(const std::filesystem::path& folder, const ModelConfig& config,
                             at::ScalarType type, at::Device device) {
  const Checkpoint checkpoint(folder);
  Weights weights;
  for (const WeightShape& expected : weight_shapes(config)) {
    weights.emplace(expected.name,
                    checkpoint.tensor(expected.name, expected.shape).to(device, type));
  }
  refuse_unused_weights(checkpoint, weights, config);
  return Transformer(config, std::move(weights));
}

}  // namespace kvloupe
