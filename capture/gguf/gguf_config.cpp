#include "capture/gguf/gguf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/math/rope_scaling.h"
#include "capture/gguf/gguf_type.h"

namespace kvloupe {

namespace {

using nlohmann::json;

constexpr std::int64_t kMost = std::int64_t{1} << 31;
constexpr const char* kRotationFactors = "rope_freqs.weight";

/// Keys of a family that change no computation. Only yarn uses some, and reads them.
constexpr std::string_view kHarmless =
    " vocab_size pooling_type tensor_data_layout rope.scaling.finetuned "
    " rope.scaling.original_context_length rope.scaling.yarn_beta_fast "
    "rope.scaling.yarn_beta_slow ";
/// Those that change none while they are 0, or false.
constexpr std::string_view kHarmlessAt0 =
    " rope.scaling.yarn_log_multiplier attention.clamp_kqv attention.max_alibi_bias "
    " attention.shared_kv_layers attention.temperature_scale attention.scale "
    " attn_logit_softcapping final_logit_softcapping use_parallel_residual expert_count "
    " expert_used_count expert_shared_count leading_dense_block_count nextn_predict_layers ";
/// Those that change none while they are 1, or true. An expert_gating_func of 1 is the softmax.
constexpr std::string_view kHarmlessAt1 =
    " rope.scaling.attn_factor rope.scaling.yarn_attn_factor "
    " rope.scaling.yarn_ext_factor attention.causal embedding_scale residual_scale logit_scale "
    " expert_weights_norm expert_weights_scale expert_gating_func ";

/// The values of a family, whose keys begin with its name. Notes which keys are read.
class Keys {
 public:
  Keys(const GgufMetadata& metadata, std::string family)
      : metadata_(metadata), family_(std::move(family)) {}
  std::string key(const char* name) const { return *read_.insert(family_ + "." + name).first; }
  const GgufMetadata& metadata() const { return metadata_; }
  std::int64_t whole(const char* name) const {
    const auto found = whole_if(name);
    if (!found) metadata_.fail(key(name), "is missing");
    return *found;
  }
  std::optional<std::int64_t> whole_if(const char* name, std::int64_t least = 1) const {
    return metadata_.same_if(key(name), least, kMost);
  }
  std::optional<double> positive_if(const char* name) const {
    const auto found = metadata_.real_if(key(name));
    if (found && *found <= 0.0) metadata_.fail(key(name), "must be greater than 0");
    return found;
  }
  std::optional<std::string> text_if(const char* name) const {
    return metadata_.text_if(key(name));
  }
  /// Refuses a length of one kind of layers that differs from that of the others.
  void same_length(const char* name, std::int64_t head_dim) const {
    if (whole_if(name).value_or(head_dim) != head_dim)
      fail(name, "differs from the length of keys, which is not supported");
  }
  [[noreturn]] void fail(const char* name, const std::string& problem) const {
    metadata_.fail(key(name), problem);
  }
  /// Refuses every key of the family that was not read and is not known to be harmless.
  void refuse_others() const {
    for (const auto& [key, value] : metadata_.values()) {
      if (!key.starts_with(family_ + ".") || read_.contains(key)) continue;
      const std::string name = " " + key.substr(family_.size() + 1) + " ";
      const auto is_in = [&](std::string_view names) { return names.find(name) != names.npos; };
      if (is_in(kHarmless)) continue;
      const bool at0 = is_in(kHarmlessAt0), known = at0 || is_in(kHarmlessAt1);
      if (known &&
          (value.kind == GgufKind::boolean ? metadata_.flag_if(key) == !at0
                                           : metadata_.real_if(key) == (at0 ? 0.0 : 1.0))) {
        continue;
      }
      metadata_.fail(key, std::string(known ? "has a value" : "may be a part of the model") +
                              " that this version does not compute; take another file of the "
                              "model, or the folder that it was made from");
    }
  }

 private:
  const GgufMetadata& metadata_;
  std::string family_;
  mutable std::set<std::string, std::less<>> read_;
};

/// A weight's name within a layer in both layouts.
struct Part {
  const char* hugging_face;
  const char* gguf;
};

constexpr std::array kParts{
    Part{"input_layernorm", "attn_norm"},
    Part{"self_attn.q_proj", "attn_q"},
    Part{"self_attn.k_proj", "attn_k"},
    Part{"self_attn.v_proj", "attn_v"},
    Part{"self_attn.qkv_proj", "attn_qkv"},  // Phi-3
    Part{"self_attn.q_norm", "attn_q_norm"},
    Part{"self_attn.k_norm", "attn_k_norm"},
    Part{"self_attn.o_proj", "attn_output"},
    Part{"post_attention_layernorm", "ffn_norm"},  // but see Family::norm_after_attention
    Part{"pre_feedforward_layernorm", "ffn_norm"},
    Part{"post_feedforward_layernorm", "post_ffw_norm"},
    Part{"mlp.gate_proj", "ffn_gate"},
    Part{"mlp.up_proj", "ffn_up"},
    Part{"mlp.gate_up_proj", "ffn_up"},  // Phi-3
    Part{"mlp.down_proj", "ffn_down"},
    Part{"mlp.gate", "ffn_gate_inp"},
    Part{"mlp.experts.gate_proj", "ffn_gate_exps"},
    Part{"mlp.experts.up_proj", "ffn_up_exps"},
    Part{"mlp.experts.down_proj", "ffn_down_exps"},
};

/// Turns the keys that only one family has into fields of config.json.
using OwnFields = void (*)(const GgufModel& model, const Keys& keys, json& config);

void add_real(const Keys& keys, const char* key, const char* field, json& config) {
  if (const auto value = keys.positive_if(key)) config[field] = *value;
}

/// query_pre_attn_scalar, which no file has. It is the head dimension, except in the largest model
/// of a generation, which has so many layers: there it is hidden_size / num_attention_heads.
void add_query_scale(std::int64_t layers_of_largest, json& config) {
  const bool largest = config["num_hidden_layers"] == layers_of_largest;
  config["query_pre_attn_scalar"] = largest ? config["hidden_size"].get<std::int64_t>() /
                                                  config["num_attention_heads"].get<std::int64_t>()
                                            : config["head_dim"].get<std::int64_t>();
}

/// A base of the rotation under llama.cpp's name or under Ollama's.
std::optional<double> base_of(const Keys& keys, const char* name, const char* ollama) {
  const auto base = keys.positive_if(name), other = keys.positive_if(ollama);
  if (base && other && *base != *other) {
    keys.fail(ollama, fmt::format("is not {} as {} is", *base, keys.key(name)));
  }
  return base ? base : other;
}

void read_gemma2(const GgufModel&, const Keys& keys, json& config) {
  constexpr std::int64_t kLayersOf27B = 46;
  add_query_scale(kLayersOf27B, config);
  add_real(keys, "attn_logit_softcapping", "attn_logit_softcapping", config);
  add_real(keys, "final_logit_softcapping", "final_logit_softcapping", config);
}

void read_gemma3(const GgufModel&, const Keys& keys, json& config) {
  constexpr std::int64_t kLayersOf27B = 62;
  add_query_scale(kLayersOf27B, config);
  add_real(keys, "final_logit_softcapping", "final_logit_softcapping", config);
  if (const auto base = base_of(keys, "rope.freq_base_swa", "rope.local.freq_base")) {
    config["rope_local_base_freq"] = *base;
  }
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const GgufValue* pattern = keys.metadata().find(keys.key(kPattern));
  if (pattern != nullptr && pattern->element == GgufKind::boolean) {  // by layer, as in Ollama's
    for (const std::byte windowed : pattern->bytes) {
      config["layer_types"].push_back(windowed == std::byte{0} ? "full_attention"
                                                               : "sliding_attention");
    }
  } else if (const auto n = keys.whole_if(kPattern)) {
    config["sliding_window_pattern"] = *n;
  }
}

void read_granite(const GgufModel&, const Keys& keys, json& config) {
  if (!keys.metadata().flag_if(keys.key("rope.scaling.finetuned")).value_or(true)) {
    keys.fail("rope.scaling.finetuned", "is false: a model without rotation is not supported");
  }
  config["attention_multiplier"] = keys.positive_if("attention.scale")
                                       .value_or(1.0 / std::sqrt(config["head_dim"].get<double>()));
  add_real(keys, "embedding_scale", "embedding_multiplier", config);
  add_real(keys, "residual_scale", "residual_multiplier", config);
  add_real(keys, "logit_scale", "logits_scaling", config);
}

/// A mixture of experts, if the file has one, is Mixtral; a window makes a Mistral.
void read_llama(const GgufModel&, const Keys& keys, json& config) {
  const auto experts = keys.whole_if("expert_count", 0);
  if (experts.value_or(0) > 0) {
    config["architectures"] = {"MixtralForCausalLM"};
    config["num_local_experts"] = *experts;
    config["num_experts_per_tok"] = keys.whole("expert_used_count");
    if (config["attention_bias"] == true) {
      keys.fail("expert_count", "is not 0 in a model with biases, which is not supported");
    }
  } else if (config.contains("sliding_window")) {
    config["architectures"] = {"MistralForCausalLM"};
  }
}

void read_qwen3moe(const GgufModel&, const Keys& keys, json& config) {
  config["num_experts"] = keys.whole("expert_count");
  config["num_experts_per_tok"] = keys.whole("expert_used_count");
  config["moe_intermediate_size"] = keys.whole("expert_feed_forward_length");
  config["norm_topk_prob"] = true;  // in no key: every published model scales them
}

void read_gpt_oss(const GgufModel&, const Keys& keys, json& config) {
  config["num_local_experts"] = keys.whole("expert_count");
  config["num_experts_per_tok"] = keys.whole("expert_used_count");
  config["intermediate_size"] = keys.whole("expert_feed_forward_length");
  // No key says this: the model does not round the borders between its frequencies.
  if (config["rope_scaling"].is_object()) config["rope_scaling"]["truncate"] = false;
}

/// A family by its names in GGUF and in Hugging Face.
struct Family {
  const char* gguf;
  const char* hugging_face;
  bool interleaved = false;           // see has_interleaved_rows()
  bool has_window = false;            // key attention.sliding_window
  bool norm_after_attention = false;  // "post_attention_norm" is Hugging Face's name, too
  bool rotations_differ = false;      // layers with a window turn with another base
  OwnFields own_fields = nullptr;
};

constexpr Family kFamilies[] = {
    {.gguf = "llama",
     .hugging_face = "LlamaForCausalLM",
     .interleaved = true,
     .has_window = true,
     .own_fields = read_llama},
    {.gguf = "qwen2", .hugging_face = "Qwen2ForCausalLM"},
    {.gguf = "qwen3", .hugging_face = "Qwen3ForCausalLM"},
    {.gguf = "phi3", .hugging_face = "Phi3ForCausalLM", .has_window = true},
    {.gguf = "granite",
     .hugging_face = "GraniteForCausalLM",
     .interleaved = true,
     .own_fields = read_granite},
    {.gguf = "smollm3", .hugging_face = "SmolLM3ForCausalLM", .interleaved = true},
    {.gguf = "olmo2", .hugging_face = "Olmo2ForCausalLM", .norm_after_attention = true},
    {.gguf = "gemma2",
     .hugging_face = "Gemma2ForCausalLM",
     .has_window = true,
     .norm_after_attention = true,
     .own_fields = read_gemma2},
    {.gguf = "gemma3",
     .hugging_face = "Gemma3ForCausalLM",
     .has_window = true,
     .norm_after_attention = true,
     .rotations_differ = true,
     .own_fields = read_gemma3},
    {.gguf = "qwen3moe", .hugging_face = "Qwen3MoeForCausalLM", .own_fields = read_qwen3moe},
    {.gguf = "gpt-oss",
     .hugging_face = "GptOssForCausalLM",
     .has_window = true,
     .norm_after_attention = true,
     .own_fields = read_gpt_oss},
};

const Family* find_family(std::string_view gguf) {
  for (const Family& family : kFamilies) {
    if (gguf == family.gguf) return &family;
  }
  return nullptr;
}

const Family& family_of(const GgufModel& model) {
  const std::string name = model.architecture();
  if (const Family* family = find_family(name)) return *family;
  std::string known;
  for (const Family& family : kFamilies) {
    known += (known.empty() ? "" : ", ") + std::string(family.gguf);
  }
  model.metadata().fail("general.architecture",
                        "is " + in_quotes(name) +
                            ", which this version does not compute (it does " + known +
                            "); the Python package captures most decoders that transformers runs: "
                            "python -m kvloupe capture --model FILE -o TRACE");
}

/// The numbers that the frequencies of the rotation are divided by, [d/2].
std::vector<double> rotation_factors(const GgufModel& model, std::int64_t pairs) {
  const GgufModel::Found found = model.tensor(kRotationFactors);
  const auto fail = [&](const std::string& problem) {
    throw FileError(found.file->string(),
                    std::string("tensor ") + kRotationFactors + " " + problem);
  };
  if (find_gguf_type(found.tensor->type)->name != "F32") fail("must have the type F32");
  if (found.tensor->numbers() != pairs) {
    fail(fmt::format("has {} numbers for {} pairs", found.tensor->numbers(), pairs));
  }
  std::vector<float> factors(static_cast<std::size_t>(pairs));
  std::memcpy(factors.data(), found.bytes.data(), found.bytes.size());
  for (const float factor : factors) {
    if (!std::isfinite(factor) || factor <= 0.0F) fail("must have finite numbers greater than 0");
  }
  return {factors.begin(), factors.end()};
}

/// The scaling of Llama 3 that gives these factors, as far as float32 tells, or else the factors
/// themselves. Llama 3's numbers are the same in every model except for `factor`; other original
/// contexts are tried because tests and small models have them.
RopeScaling scaling_of(const std::vector<double>& factors, double theta) {
  RopeScaling scaling;
  if (std::all_of(factors.begin(), factors.end(), [](double f) { return f == 1.0; })) {
    return scaling;
  }
  scaling.type = RopeScaling::Type::llama3;
  scaling.factor = *std::max_element(factors.begin(), factors.end());
  const int head_dim = 2 * static_cast<int>(factors.size());
  const std::vector<double> plain = rope_frequencies(theta, head_dim, {});
  for (const int power : {13, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17}) {
    scaling.original_context = std::ldexp(1.0, power);
    const std::vector<double> scaled = rope_frequencies(theta, head_dim, scaling);
    bool fits = true;
    for (std::size_t j = 0; j < factors.size(); ++j) {
      fits = fits && std::abs(plain[j] / scaled[j] / factors[j] - 1.0) < 1e-4;
    }
    if (fits) return scaling;
  }
  scaling = {};
  scaling.type = RopeScaling::Type::factors;
  scaling.factors = factors;
  return scaling;
}

/// rope_scaling of a config.json.
json read_scaling(const GgufModel& model, const Keys& keys, std::int64_t head_dim, double theta) {
  const auto said = keys.text_if("rope.scaling.type");
  auto factor = keys.positive_if("rope.scaling.factor");
  const auto older = keys.positive_if("rope.scale_linear");
  if (!factor) factor = older;
  // Without a type, a factor is of the linear scaling, as in llama.cpp.
  const std::string type = said.value_or(factor && *factor != 1.0 ? "linear" : "none");
  for (const char* tensor : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    if (!model.has(tensor)) continue;
    throw FileError(
        model.path().string(),
        std::string("tensor ") + tensor + ": longrope scaling is not supported by this version");
  }
  if (model.has(kRotationFactors)) {
    if (type != "none" && type != "llama3") {
      keys.fail("rope.scaling.type", "is " + in_quotes(type) + ", and the file has " +
                                         kRotationFactors + ", too: two scalings");
    }
    return json::parse(rope_scaling_json(scaling_of(rotation_factors(model, head_dim / 2), theta)));
  }
  if (type == "none") return nullptr;
  if (type != "linear" && type != "yarn") {
    keys.fail(
        "rope.scaling.type",
        "is " + in_quotes(type) + ", which is not supported; supported: none, linear and yarn");
  }
  if (!factor) keys.fail("rope.scaling.factor", "is missing");
  if (type == "linear") return {{"rope_type", "linear"}, {"factor", *factor}};
  json yarn{{"rope_type", "yarn"}, {"factor", *factor}};
  if (const auto context = keys.positive_if("rope.scaling.original_context_length")) {
    yarn["original_max_position_embeddings"] = *context;
  }
  for (const auto& [name, field] : {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                    {"rope.scaling.yarn_beta_slow", "beta_slow"}}) {
    if (const auto value = keys.positive_if(name)) yarn[field] = *value;
  }
  for (const char* name : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"}) {
    const auto own = keys.positive_if(name);  // beside the usual one
    if (own && *own != 1.0) yarn["attention_factor"] = *own * (0.1 * std::log(*factor) + 1.0);
  }
  return yarn;
}

}  // namespace

std::vector<std::int64_t> gguf_end_tokens(const GgufMetadata& metadata) {
  std::set<std::int64_t> ends;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (const auto id = metadata.whole_if(key, 0, kMost)) ends.insert(*id);
  }
  if (!metadata.has("tokenizer.ggml.tokens")) return {ends.begin(), ends.end()};
  const auto& tokens = metadata.texts("tokenizer.ggml.tokens");
  const auto id_of = [&](std::string_view text) -> std::optional<std::int64_t> {
    const auto found = std::find(tokens.begin(), tokens.end(), text);
    if (found == tokens.end()) return std::nullopt;
    return found - tokens.begin();
  };
  const auto add = [&](const auto& texts) {
    for (const std::string_view text : texts) {
      if (const auto id = id_of(text)) ends.insert(*id);
    }
  };
  // gpt-oss ends each message of its turn with <|end|>, and the turn with one of the other two.
  if (id_of("<|return|>") && id_of("<|call|>")) {
    add(std::array<std::string_view, 3>{"<|return|>", "<|call|>", "<|endoftext|>"});
    if (const auto end = id_of("<|end|>")) ends.erase(*end);
  } else if (!metadata.has("tokenizer.ggml.eot_token_id")) {
    add(kGgufEnds);
  }
  return {ends.begin(), ends.end()};
}

std::string gguf_config(const GgufModel& model) {
  const GgufMetadata metadata = model.metadata();
  const Family& family = family_of(model);
  const Keys keys(metadata, family.gguf);
  json config;
  config["architectures"] = {family.hugging_face};
  config["num_hidden_layers"] = keys.whole("block_count");
  config["hidden_size"] = keys.whole("embedding_length");
  config["intermediate_size"] = keys.whole("feed_forward_length");
  const std::int64_t heads = keys.whole("attention.head_count");
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = keys.whole_if("attention.head_count_kv").value_or(heads);
  if (const auto context = keys.whole_if("context_length")) {
    config["max_position_embeddings"] = *context;
  }
  const auto eps = keys.positive_if("attention.layer_norm_rms_epsilon");
  if (!eps) keys.fail("attention.layer_norm_rms_epsilon", "is missing");
  config["rms_norm_eps"] = *eps;

  const std::int64_t hidden = config["hidden_size"].get<std::int64_t>();
  const auto key_length = keys.whole_if("attention.key_length");
  if (!key_length && hidden % heads != 0) {
    keys.fail("attention.key_length",
              fmt::format("is missing, and {} heads do not divide {}", heads, hidden));
  }
  const std::int64_t head_dim = key_length.value_or(hidden / heads);
  for (const char* name : {"attention.value_length", "attention.key_length_swa",
                           "attention.value_length_swa", "rope.dimension_count_swa"}) {
    keys.same_length(name, head_dim);
  }
  if (keys.whole_if("rope.dimension_count").value_or(head_dim) != head_dim) {
    keys.fail("rope.dimension_count",
              "is not the length of keys: partial rotation is not supported");
  }
  if (head_dim % 2 != 0) keys.fail("attention.key_length", "is odd; rotary positions need pairs");
  config["head_dim"] = head_dim;
  const auto base = base_of(keys, "rope.freq_base", "rope.global.freq_base");
  if (!base && family.rotations_differ) keys.fail("rope.freq_base", "is missing");
  const double theta = base.value_or(10000.0);
  config["rope_theta"] = theta;
  config["rope_scaling"] = read_scaling(model, keys, head_dim, theta);

  const std::vector<std::int64_t>& embedding = model.tensor("token_embd.weight").tensor->shape;
  config["vocab_size"] = embedding.front();
  config["tie_word_embeddings"] = !model.has("output.weight");
  if (config["architectures"][0] != "Qwen2ForCausalLM") {
    config["attention_bias"] = model.has("blk.0.attn_q.bias");
    config["mlp_bias"] = model.has("blk.0.ffn_gate.bias");
  }
  if (const auto window = keys.whole_if("attention.sliding_window", 0); window && *window > 0) {
    if (!family.has_window) {
      keys.fail("attention.sliding_window", "is not supported in this family");
    }
    config["sliding_window"] = *window;
  }
  if (family.own_fields != nullptr) family.own_fields(model, keys, config);
  keys.refuse_others();
  if (const auto bos = metadata.whole_if("tokenizer.ggml.bos_token_id", 0, kMost)) {
    config["bos_token_id"] = *bos;
  }
  config["eos_token_id"] = gguf_end_tokens(metadata);
  return config.dump(2, ' ', false, json::error_handler_t::replace);
}

std::string gguf_tensor_name(const std::string& architecture, const std::string& name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return "";
  const std::size_t dot = name.find('.', kLayers.size());
  const std::size_t end = name.rfind('.');
  if (dot == name.npos || end <= dot) return "";
  const std::string layer = "blk." + name.substr(kLayers.size(), dot - kLayers.size()) + ".";
  const std::string part = name.substr(dot + 1, end - dot - 1);
  if (name.substr(dot + 1) == "self_attn.sinks") return layer + "attn_sinks.weight";
  const Family* family = find_family(architecture);
  if (part == "post_attention_layernorm" && family != nullptr && family->norm_after_attention) {
    return layer + "post_attention_norm" + name.substr(end);
  }
  for (const Part& known : kParts) {
    if (part == known.hugging_face) return layer + known.gguf + name.substr(end);
  }
  return "";
}

bool has_interleaved_rows(const std::string& architecture, const std::string& name) {
  const Family* family = find_family(architecture);
  return family != nullptr && family->interleaved &&
         (name.find("self_attn.q_proj.") != name.npos ||
          name.find("self_attn.k_proj.") != name.npos);
}

bool is_gguf_constant(const std::string& tensor) { return tensor == kRotationFactors; }

}  // namespace kvloupe
