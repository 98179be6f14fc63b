#include "capture/model/architecture_catalog.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "analysis/base/text/text.h"
#include "capture/model/family.h"

namespace kvloupe {

namespace {

using Windows = WindowRule::Kind;

constexpr std::string_view kSuffix = "ForCausalLM";  // of all names

// A field that is not named has the default of Family.
constexpr Family kFamilies[] = {
    {.name = "LlamaForCausalLM",  // Llama 2, 3, 3.1, 3.2 and others of this structure
     .own_kv_heads = true,
     .attention_bias = AttentionBias::by_field,
     .mlp_bias = true},
    {.name = "MistralForCausalLM", .window = {Windows::every_layer, 4096}},
    {.name = "Qwen2ForCausalLM",  // Qwen 1.5, 2, 2.5
     .window = {Windows::off},
     .attention_bias = AttentionBias::query_key_value},
    {.name = "Qwen3ForCausalLM",
     .head_dim = 128,
     .window = {Windows::off},
     .attention_bias = AttentionBias::by_field,
     .query_key_norm = QueryKeyNorm::heads},
    {.name = "Phi3ForCausalLM",
     .rms_norm_eps = 1e-5,
     .own_kv_heads = true,
     .window = {Windows::every_layer},
     .layout = WeightLayout::fused,
     .own_fields = read_phi3},
    {.name = "GraniteForCausalLM",
     .own_kv_heads = true,
     .attention_bias = AttentionBias::by_field,
     .mlp_bias = true,
     .own_fields = read_granite},
    {.name = "SmolLM3ForCausalLM",
     .rope_theta = 2e6,
     .tied_head = true,
     .window = {Windows::off},
     .attention_bias = AttentionBias::by_field,
     .mlp_bias = true,
     .own_fields = read_smollm3},
    {.name = "Olmo2ForCausalLM",
     .rms_norm_eps = 1e-5,
     .own_kv_heads = true,
     .attention_bias = AttentionBias::by_field,
     .query_key_norm = QueryKeyNorm::whole,
     .norms = NormPlaces::after},
    {.name = "Gemma2ForCausalLM",
     .head_dim = 256,
     .tied_head = true,
     .window = {Windows::layer_types, 4096, 2},
     .attention_bias = AttentionBias::by_field,
     .norms = NormPlaces::around,
     .norm_offset = 1.0,
     .activation = Activation::gelu_tanh,
     .scaled_embedding = true,
     .own_fields = read_gemma2},
    {.name = "Gemma3ForCausalLM",  // texts alone
     .rope_theta = 1e6,
     .head_dim = 256,
     .tied_head = true,
     .window = {Windows::layer_types, 4096, 6},
     .attention_bias = AttentionBias::by_field,
     .query_key_norm = QueryKeyNorm::heads,
     .norms = NormPlaces::around,
     .norm_offset = 1.0,
     .activation = Activation::gelu_tanh,
     .scaled_embedding = true,
     .window_rope_theta = 10000.0,
     .own_fields = read_gemma3},
    {.name = "MixtralForCausalLM",
     .rms_norm_eps = 1e-5,
     .rope_theta = 1e6,
     .window = {Windows::every_layer},
     .layout = WeightLayout::mixtral,
     .own_fields = read_mixtral},
    {.name = "Qwen3MoeForCausalLM",
     .window = {Windows::if_used, 4096},
     .attention_bias = AttentionBias::by_field,
     .query_key_norm = QueryKeyNorm::heads,
     .own_fields = read_qwen3_moe},
    {.name = "GptOssForCausalLM",
     .rms_norm_eps = 1e-5,
     .rope_theta = 150000.0,
     .rope_scaling = R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "truncate": false, "original_max_position_embeddings": 4096})",
     .head_dim = 64,
     .window = {Windows::layer_types, 128, 2},
     .attention_bias_absent = true,
     .attention_bias = AttentionBias::by_field,
     .activation = Activation::clamped_silu,
     .sink_logits = true,
     .layout = WeightLayout::gpt_oss,
     .own_fields = read_gpt_oss},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

ModelConfig parse_model_config(const std::string& text, const std::string& where) {
  const nlohmann::json root = parse_config_object(text, where, "a model's config");
  const ConfigReader reader(root, where);

  const nlohmann::json* names = reader.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    reader.fail("the field architectures is missing; a Hugging Face model folder is expected");
  }
  const auto name = names->front().get<std::string>();
  std::string known;
  for (const Family& family : families()) {
    if (family.name == name) {
      ModelConfig config = read_decoder(reader, family);
      config.architecture = name;
      config.text = text;
      return config;
    }
    const std::string_view shown = family.name.substr(0, family.name.find(kSuffix));
    known += (known.empty() ? "" : ", ") + std::string(shown);
  }
  constexpr std::size_t kLongestName = 40;
  reader.fail("the architecture " + in_one_line(name, kLongestName) +
              " is not among those that kvloupe-capture runs (" + known +
              "); the Python package captures most others: python -m kvloupe capture");
}

namespace {

// No model exceeds these limits, which keep every product of sizes far from overflow.
constexpr std::int64_t kMostLayers = 4096;
constexpr std::int64_t kMostHeads = 4096;
constexpr std::int64_t kLargestVocabulary = std::int64_t{1} << 24;

constexpr const char* kFull = "full_attention";
constexpr const char* kWindowed = "sliding_attention";

void refuse_partial_rotation(const ConfigReader& reader) {
  if (reader.positive_or("partial_rotary_factor", 1.0) != 1.0) {
    reader.fail("partial_rotary_factor other than 1 is not supported by this version");
  }
}

/// Base and scaling of one kind of layers.
struct Rotary {
  double theta = 10000.0;
  RopeScaling scaling;
};

/// Adds the settings of `object`, found under `field`.
void add_rotary(const ConfigReader& reader, const std::string& field, const nlohmann::json& object,
                std::int64_t positions, Rotary& rotary) {
  RopeScaling scaling;
  try {
    scaling = parse_rope_scaling(object.dump(), static_cast<double>(positions));
  } catch (const std::invalid_argument& problem) {
    reader.fail(field + ": " + problem.what());
  }
  const ConfigReader rope(object, reader.where());
  rotary.theta = rope.positive_or("rope_theta", rotary.theta);
  refuse_partial_rotation(rope);
  for (const char* read :  // by parse_rope_scaling, as far as the type has them
       {"rope_type", "type", "factor", "original_max_position_embeddings", "attention_factor",
        "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "low_freq_factor",
        "high_freq_factor", "factors", "finetuned"}) {
    rope.find(read);
  }
  rope.refuse_others();
  const bool known = rotary.scaling.type != RopeScaling::Type::none;
  if (known && scaling != rotary.scaling) {
    reader.fail("rope_scaling and rope_parameters contradict each other");
  }
  rotary.scaling = scaling;
}

bool is_by_type(const nlohmann::json& object) {
  return object.is_object() && (object.contains(kFull) || object.contains(kWindowed));
}

/// Base and scaling. Newer configs keep both in rope_parameters, by type of layer if these differ.
/// Older ones keep the scaling in rope_scaling and the base beside it. `windowed`: for the layers
/// with a window.
void read_rotation(const ConfigReader& reader, const Family& family, const ModelConfig& config,
                   Rotary& full, Rotary& windowed) {
  refuse_partial_rotation(reader);
  const std::int64_t positions = config.max_position_embeddings;
  const bool differ = family.window_rope_theta > 0.0;
  full.theta = reader.positive_or("rope_theta", family.rope_theta);
  if (differ) {
    windowed.theta = reader.positive_or("rope_local_base_freq", family.window_rope_theta);
  }
  bool said = false;
  for (const char* field : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* object = reader.find(field);
    if (object == nullptr) continue;
    said = true;
    if (!differ || !is_by_type(*object)) {
      add_rotary(reader, field, *object, positions, full);
      continue;
    }
    for (const auto& [type, rotary] : {std::pair{kFull, &full}, {kWindowed, &windowed}}) {
      const auto own = object->find(type);
      if (own == object->end() || own->is_null()) continue;
      add_rotary(reader, std::string(field) + "." + type, *own, positions, *rotary);
    }
  }
  if (!said) full.scaling = parse_rope_scaling(family.rope_scaling);
  if (!differ) windowed = full;
  for (const Rotary& rotary : {full, windowed}) {
    if (rotary.scaling.type == RopeScaling::Type::yarn && rotary.theta <= 1.0) {
      reader.fail("yarn needs a rope_theta greater than 1");
    }
  }
}

/// Refuses "layer_types" that contradict the window that all layers have, or that none has.
void check_layer_types(const ConfigReader& reader, bool windowed) {
  const nlohmann::json* types = reader.find("layer_types");
  if (types == nullptr) return;
  const char* expected = windowed ? kWindowed : kFull;
  if (!types->is_array()) reader.fail("layer_types must be a list");
  for (const nlohmann::json& type : *types) {
    if (type != expected) {
      reader.fail("layer_types has layers other than " + std::string(expected) +
                  ", which is not supported by this version");
    }
  }
}

/// Qwen's window: refuses use_sliding_window unless no layer has a window (max_window_layers counts
/// the first layers, which have none).
void check_no_window(const ConfigReader& reader, std::int64_t layers) {
  if (!reader.flag_or("use_sliding_window", false)) return;
  // null means no window; an absent field means the family's own.
  if (reader.has("sliding_window") && reader.find("sliding_window") == nullptr) return;
  // 0 is not a size, and in this field it asks for a window in all layers.
  const nlohmann::json* first = reader.find("max_window_layers");
  const bool none =
      first != nullptr && *first != 0 && reader.size("max_window_layers", kMostLayers) >= layers;
  if (!none) {
    reader.fail(
        "use_sliding_window true is not supported by this version: some layers of the model have a "
        "window and others do not");
  }
}

/// Whether each layer has a window, by layer_types, or else all but every n-th.
std::vector<bool> windowed_layers(const ConfigReader& reader, std::int64_t layers,
                                  std::int64_t full_every) {
  std::vector<bool> windowed;
  const nlohmann::json* types = reader.find("layer_types");
  const std::int64_t n = reader.size_or("sliding_window_pattern", kMostLayers, full_every);
  if (types == nullptr) {
    for (std::int64_t layer = 0; layer < layers; ++layer) windowed.push_back((layer + 1) % n != 0);
    return windowed;
  }
  if (!types->is_array() || std::ssize(*types) != layers) {
    reader.fail("layer_types must be a list of " + std::to_string(layers) + " texts");
  }
  for (const nlohmann::json& type : *types) {
    if (type != kFull && type != kWindowed) {
      reader.fail("layer_types has " + in_one_line(type.dump()) +
                  ", which is not supported by this version; it computes " + kFull + " and " +
                  kWindowed);
    }
    windowed.push_back(type == kWindowed);
  }
  return windowed;
}

/// The window of each layer, [L].
std::vector<std::int64_t> read_windows(const ConfigReader& reader, const WindowRule& rule,
                                       std::int64_t layers) {
  using Kind = WindowRule::Kind;
  const auto count = static_cast<std::size_t>(layers);
  std::vector<std::int64_t> windows(count, 0);
  const bool asks = rule.kind == Kind::every_layer || rule.kind == Kind::layer_types ||
                    (rule.kind == Kind::if_used && reader.flag_or("use_sliding_window", false));
  if (rule.kind == Kind::off) check_no_window(reader, layers);
  if (rule.kind != Kind::none) reader.find("sliding_window");  // also where it is not in use
  // An absent field is not null: the family's config class then assumes a window.
  const std::int64_t absent = reader.has("sliding_window") ? 0 : rule.absent;
  const std::int64_t window = asks ? reader.size_or("sliding_window", kLongestContext, absent) : 0;
  if (rule.kind != Kind::layer_types) {
    check_layer_types(reader, window > 0);
    windows.assign(count, window);
    return windows;
  }
  const std::vector<bool> windowed = windowed_layers(reader, layers, rule.full_every);
  for (std::size_t layer = 0; layer < count; ++layer) windows[layer] = windowed[layer] ? window : 0;
  return windows;
}

void read_layers(const ConfigReader& reader, const Family& family, ModelConfig& config) {
  Rotary full, windowed;
  read_rotation(reader, family, config, full, windowed);
  const std::vector<std::int64_t> windows = read_windows(reader, family.window, config.num_layers);
  for (const std::int64_t window : windows) {
    const Rotary& own = window > 0 ? windowed : full;
    config.layers.push_back({window, true, own.theta, own.scaling, false});
  }
  const bool all = std::all_of(windows.begin(), windows.end(), [](auto w) { return w > 0; });
  config.sliding_window = all ? windows.front() : 0;
  config.rope_theta = all ? windowed.theta : full.theta;
  config.rope_scaling = all ? windowed.scaling : full.scaling;
}

void check_activation(const ConfigReader& reader, Activation activation) {
  const bool gelu = activation == Activation::gelu_tanh;
  const char* field = gelu ? "hidden_activation" : "hidden_act";
  const std::string expected = gelu ? "gelu_pytorch_tanh" : "silu";
  if (const std::string act = reader.word_or(field, expected); act != expected) {
    reader.fail(std::string(field) + " " + in_quotes(act) +
                " is not supported; models of this family use " + in_quotes(expected));
  }
  if (gelu) reader.find("hidden_act");  // which these families ignore
}

/// Refuses quantised weights, except for the experts of gpt-oss.
void read_quantisation(const ConfigReader& reader, ModelConfig& config) {
  const nlohmann::json* found = reader.find("quantization_config");
  if (found == nullptr) return;
  if (config.layout == WeightLayout::gpt_oss && found->is_object() &&
      ConfigReader(*found, reader.where()).word_or("quant_method", "") == "mxfp4") {
    config.layout = WeightLayout::gpt_oss_packed;
    return;
  }
  reader.fail(
      "quantization_config: the weights are quantised, which is not supported in a folder; take a "
      "GGUF file of the model, its 16- or 32-bit checkpoint, or the Python package's capture");
}

}  // namespace

std::int64_t ModelConfig::narrowest_window() const {
  std::int64_t narrowest = 0;
  for (const LayerConfig& layer : layers) {
    const std::int64_t own = layer.sliding_window;
    if (own > 0 && (narrowest == 0 || own < narrowest)) narrowest = own;
  }
  return narrowest;
}

ModelConfig read_decoder(const ConfigReader& reader, const Family& family) {
  ModelConfig config;
  config.num_layers = reader.size("num_hidden_layers", kMostLayers);
  config.num_heads = reader.size("num_attention_heads", kMostHeads);
  if (!family.own_kv_heads && !reader.has("num_key_value_heads")) {
    reader.fail("the field num_key_value_heads is missing");
  }
  config.num_kv_heads = reader.size_or("num_key_value_heads", kMostHeads, config.num_heads);
  config.hidden_size = reader.size("hidden_size", kLargestDimension);
  config.intermediate_size = reader.size("intermediate_size", kLargestDimension);
  config.vocab_size = reader.size("vocab_size", kLargestVocabulary);
  config.max_position_embeddings = reader.size_or("max_position_embeddings", kLongestContext, 0);
  config.rms_norm_eps = reader.positive_or("rms_norm_eps", family.rms_norm_eps);
  read_layers(reader, family, config);
  config.tied_head = reader.flag_or("tie_word_embeddings", family.tied_head);
  config.bos_token_id = reader.token("bos_token_id");
  config.eos_token_ids = reader.tokens("eos_token_id");

  std::int64_t head_dim = family.head_dim;
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
  config.attention_scale = 1.0 / std::sqrt(static_cast<double>(config.head_dim));

  if (family.attention_bias == AttentionBias::query_key_value) reader.find("attention_bias");
  const bool all_biases = family.attention_bias == AttentionBias::by_field &&
                          reader.flag_or("attention_bias", family.attention_bias_absent);
  config.qkv_bias = all_biases || family.attention_bias == AttentionBias::query_key_value;
  config.output_bias = all_biases;
  config.mlp_bias = family.mlp_bias && reader.flag_or("mlp_bias", false);
  config.query_key_norm = family.query_key_norm;
  config.norms = family.norms;
  config.norm_offset = family.norm_offset;
  config.activation = family.activation;
  config.sink_logits = family.sink_logits;
  config.layout = family.layout;
  if (family.scaled_embedding) {
    config.embedding_multiplier = std::sqrt(static_cast<double>(config.hidden_size));
  }
  check_activation(reader, family.activation);
  read_quantisation(reader, config);
  if (family.own_fields != nullptr) family.own_fields(reader, config);
  reader.refuse_others();
  return config;
}

}  // namespace kvloupe
