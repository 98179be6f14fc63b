#pragma once

#include <filesystem>

#include "capture/model/transformer.h"

namespace kvloupe {

/// Reads and parses FOLDER/config.json, and the tokens that end a text from
/// FOLDER/generation_config.json if that file exists. Throws FileError: folder or file missing, see
/// parse_model_config.
ModelConfig read_model_config(const std::filesystem::path& folder);

/// Loads the weights that `config` requires from a model folder. A weight that already has `type`
/// stays mapped from its file (on the CPU); others are converted one by one. Throws FileError: see
/// Checkpoint; a weight of the model that the config does not use.
Transformer load_transformer(const std::filesystem::path& folder, const ModelConfig& config,
                             at::ScalarType type, at::Device device);

}  // namespace kvloupe
