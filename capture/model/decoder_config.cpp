#include "capture/model/decoder_config.h"

#include <stdexcept>
#include <string>

#include "analysis/one_line.h"

namespace kvloupe {

namespace {

// Beyond these no model exists; they keep every product of sizes far from overflow.
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMostHeads = 4096;
constexpr std::int64_t kLargestDimension = std::int64_t{1} << 20;
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 24;

void refuse_partial_rotation(const ConfigReader& reader) {
  if (reader.positive_or("partial_rotary_factor", 1.0) != 1.0) {
    reader.fail("partial_rotary_factor other than 1 is not supported by this version");
  }
}

/// Base and scaling. Newer configs keep both in rope_parameters, older ones the scaling in
/// rope_scaling and the base beside it.
void read_rotation(const ConfigReader& reader, ModelConfig& config) {
  config.rope_theta = reader.positive_or("rope_theta", 10000.0);
  refuse_partial_rotation(reader);
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* object = reader.find(field);
    if (object == nullptr) continue;
    RopeScaling scaling;
    try {
      scaling =
          parse_rope_scaling(object->dump(), static_cast<double>(config.max_position_embeddings));
    } catch (const std::invalid_argument& problem) {
      reader.fail(std::string(field) + ": " + problem.what());
    }
    const ConfigReader rope(*object, reader.where());
    config.rope_theta = rope.positive_or("rope_theta", config.rope_theta);
    refuse_partial_rotation(rope);
    const bool known = config.rope_scaling.type != RopeScaling::Type::none;
    if (known && scaling != config.rope_scaling) {
      reader.fail("rope_scaling and rope_parameters contradict each other");
    }
    config.rope_scaling = scaling;
  }
  if (config.rope_scaling.type == RopeScaling::Type::yarn && config.rope_theta <= 1.0) {
    reader.fail("yarn needs a rope_theta greater than 1");
  }
}

}  // namespace

ModelConfig read_decoder(const ConfigReader& reader, bool own_kv_heads, std::int64_t head_dim) {
  ModelConfig config;
  config.num_layers = reader.size("num_hidden_layers", kMostLayers);
  config.num_heads = reader.size("num_attention_heads", kMostHeads);
  if (!own_kv_heads && !reader.has("num_key_value_heads")) {
    reader.fail("the field num_key_value_heads is missing");
  }
  config.num_kv_heads = reader.size_or("num_key_value_heads", kMostHeads, config.num_heads);
  config.hidden_size = reader.size("hidden_size", kLargestDimension);
  config.intermediate_size = reader.size("intermediate_size", kLargestDimension);
  config.vocab_size = reader.size("vocab_size", kLargestVocabulary);
  config.max_position_embeddings = reader.size_or("max_position_embeddings", kLongestContext, 0);
  config.rms_norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  read_rotation(reader, config);
  config.tied_head = reader.flag_or("tie_word_embeddings", false);
  config.bos_token_id = reader.token("bos_token_id");
  config.eos_token_ids = reader.tokens("eos_token_id");

  if (head_dim == 0) {
    if (reader.find("head_dim") == nullptr && config.hidden_size % config.num_heads != 0) {
      reader.fail("hidden_size " + std::to_string(config.hidden_size) + " is not a multiple of " +
                  std::to_string(config.num_heads) + " heads, and head_dim is not given");
    }
    head_dim = config.hidden_size / config.num_heads;
  }
  config.head_dim = reader.size_or("head_dim", kLargestDimension, head_dim);
  if (config.head_dim % 2 != 0) {
    reader.fail("head_dim " + std::to_string(config.head_dim) +
                " is odd; rotary positions need pairs of coordinates");
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    reader.fail("num_attention_heads " + std::to_string(config.num_heads) +
                " is not a multiple of num_key_value_heads " + std::to_string(config.num_kv_heads));
  }

  if (const std::string act = reader.word_or("hidden_act", "silu"); act != "silu") {
    reader.fail("hidden_act " + in_quotes(act) +
                " is not supported; models of this family use \"silu\"");
  }
  if (reader.find("quantization_config") != nullptr) {
    reader.fail(
        "quantization_config: the weights are quantised, which is not supported in a folder; take a "
        "GGUF file of the model, its 16- or 32-bit checkpoint, or the Python package's capture");
  }
  return config;
}

void check_layer_types(const ConfigReader& reader, const ModelConfig& config) {
  const nlohmann::json* types = reader.find("layer_types");
  if (types == nullptr) return;
  const char* expected = config.sliding_window > 0 ? "sliding_attention" : "full_attention";
  if (!types->is_array()) reader.fail("layer_types must be a list");
  for (const nlohmann::json& type : *types) {
    if (type != expected) {
      reader.fail("layer_types has layers other than " + std::string(expected) +
                  ", which is not supported by this version");
    }
  }
}

void check_no_window(const ConfigReader& reader, const ModelConfig& config) {
  if (!reader.flag_or("use_sliding_window", false)) return;
  // null is no window; an absent field is the family's own.
  if (reader.has("sliding_window") && reader.find("sliding_window") == nullptr) return;
  // 0 is not a size, and here a wish for a window in all layers.
  const nlohmann::json* first = reader.find("max_window_layers");
  const bool none = first != nullptr && *first != 0 &&
                    reader.size("max_window_layers", kMostLayers) >= config.num_layers;
  if (!none) {
    reader.fail(
        "use_sliding_window true is not supported by this version: some layers of the model have a "
        "window and others do not");
  }
}

}  // namespace kvloupe
