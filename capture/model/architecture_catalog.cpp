#include "capture/model/architecture_catalog.h"

#include <string>

#include "analysis/one_line.h"
#include "capture/model/decoder_config.h"
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

}  // namespace kvloupe
