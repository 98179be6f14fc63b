#include "capture/model/llama.h"

#include <string>

namespace kvloupe {

namespace {

// Beyond these no model exists; they keep every product of sizes far from overflow.
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMostHeads = 4096;
constexpr std::int64_t kLargestDimension = std::int64_t{1} << 20;
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 24;
constexpr std::int64_t kLongestContext = std::int64_t{1} << 31;

/// The rotary base. Newer configs keep it in rope_parameters, older ones beside rope_scaling.
double rope_theta(const ConfigReader& reader) {
  double theta = reader.positive_or("rope_theta", 10000.0);
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* object = reader.find(field);
    if (object == nullptr) continue;
    if (!object->is_object()) reader.fail(std::string(field) + " must be an object or null");
    const ConfigReader rope(*object, reader.where());
    const std::string type = rope.word_or("rope_type", rope.word_or("type", "default"));
    if (type != "default") {
      reader.fail(
          std::string(field) + " of type \"" + type +
          "\" is not supported by this version; it runs models with plain rotary positions");
    }
    theta = rope.positive_or("rope_theta", theta);
  }
  return theta;
}

}  // namespace

ModelConfig parse_llama(const ConfigReader& reader) {
  ModelConfig config;
  config.num_layers = reader.size("num_hidden_layers", kMostLayers);
  config.num_heads = reader.size("num_attention_heads", kMostHeads);
  config.num_kv_heads = reader.size_or("num_key_value_heads", kMostHeads, config.num_heads);
  config.hidden_size = reader.size("hidden_size", kLargestDimension);
  config.intermediate_size = reader.size("intermediate_size", kLargestDimension);
  config.vocab_size = reader.size("vocab_size", kLargestVocabulary);
  config.max_position_embeddings = reader.size_or("max_position_embeddings", kLongestContext, 0);
  config.rms_norm_eps = reader.positive_or("rms_norm_eps", 1e-6);
  config.rope_theta = rope_theta(reader);
  config.tied_head = reader.flag_or("tie_word_embeddings", false);
  config.bos_token_id = reader.token("bos_token_id");
  config.eos_token_ids = reader.tokens("eos_token_id");

  if (reader.find("head_dim") == nullptr && config.hidden_size % config.num_heads != 0) {
    reader.fail("hidden_size " + std::to_string(config.hidden_size) + " is no multiple of " +
                std::to_string(config.num_heads) + " heads, and head_dim is not given");
  }
  config.head_dim =
      reader.size_or("head_dim", kLargestDimension, config.hidden_size / config.num_heads);
  if (config.head_dim % 2 != 0) {
    reader.fail("head_dim " + std::to_string(config.head_dim) +
                " is odd; rotary positions turn pairs of coordinates");
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    reader.fail("num_attention_heads " + std::to_string(config.num_heads) +
                " is no multiple of num_key_value_heads " + std::to_string(config.num_kv_heads));
  }

  if (const std::string act = reader.word_or("hidden_act", "silu"); act != "silu") {
    reader.fail("hidden_act \"" + act + "\" is not supported; Llama models use \"silu\"");
  }
  for (const char* field : {"attention_bias", "mlp_bias"}) {
    if (reader.flag_or(field, false)) {
      reader.fail(std::string(field) + " true is not supported by this version");
    }
  }
  if (reader.positive_or("partial_rotary_factor", 1.0) != 1.0) {
    reader.fail("partial_rotary_factor other than 1 is not supported by this version");
  }
  if (reader.find("quantization_config") != nullptr) {
    reader.fail(
        "quantised weights (quantization_config) are not supported; use the 16- or 32-bit "
        "checkpoint of this model");
  }
  return config;
}

}  // namespace kvloupe
