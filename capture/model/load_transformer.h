#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "capture/model/model_choice.h"
#include "capture/model/transformer.h"

namespace kvloupe {

class WeightSource;

/// The settings in the model's files: FOLDER/config.json with the tokens that end a text from
/// FOLDER/generation_config.json if that file exists, or the values of a GGUF file. Throws
/// FileError: folder or file missing, see parse_model_config and gguf_config.
ModelConfig read_model_config(const std::filesystem::path& model);

/// The weights of a folder or a GGUF file with this config, by the names of weight_shapes(). Throws
/// FileError: see Checkpoint and GgufWeights.
std::shared_ptr<const WeightSource> open_weights(const std::filesystem::path& model,
                                                 const ModelConfig& config);

/// The sink logits of each layer, [L] of [Hq]; empty for a model without them. Throws FileError.
std::vector<std::vector<float>> read_sink_logits(const std::filesystem::path& model,
                                                 const ModelConfig& config);

/// Loads the weights that `config` requires. Expanded: a weight that already has `type` stays
/// mapped from its file (on the CPU); others are converted one by one. Packed: each layer's weights
/// are converted when the layer runs, and only one layer's are in memory. Automatic: packed if the
/// device is the CPU and expanded weights would not fit in the free memory. Throws FileError: see
/// Checkpoint and GgufWeights; a weight of the model that the config does not use.
Transformer load_transformer(const std::filesystem::path& model, const ModelConfig& config,
                             at::ScalarType type, at::Device device,
                             WeightStorage storage = WeightStorage::automatic);

/// The bytes of memory that expanded weights take in this type, without those that stay mapped.
std::int64_t expanded_bytes(const WeightSource& source, const ModelConfig& config,
                            at::ScalarType type);

}  // namespace kvloupe
