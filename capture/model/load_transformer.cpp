#include "capture/model/load_transformer.h"

#include <fstream>
#include <string>
#include <utility>

#include "analysis/error.h"
#include "capture/checkpoint/safetensors.h"

namespace kvloupe {

namespace {
constexpr std::uintmax_t kLargestConfig = 16U << 20U;
}

ModelConfig read_model_config(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw FileError(folder.string(),
                    "there is no such folder; a Hugging Face model folder is expected");
  }
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw FileError(folder.string(),
                    "holds no config.json; a Hugging Face model folder is expected");
  }
  if (std::filesystem::file_size(path, ignored) > kLargestConfig) {
    throw FileError(path.string(), "is too large to be a model's config");
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw FileError(path.string(), "cannot be read");
  return parse_model_config(text, path.string());
}

Transformer load_transformer(const std::filesystem::path& folder, const ModelConfig& config,
                             at::ScalarType type, at::Device device) {
  const Checkpoint checkpoint(folder);
  Weights weights;
  for (const WeightShape& expected : weight_shapes(config)) {
    weights.emplace(expected.name,
                    checkpoint.tensor(expected.name, expected.shape).to(device, type));
  }
  return Transformer(config, std::move(weights));
}

}  // namespace kvloupe
