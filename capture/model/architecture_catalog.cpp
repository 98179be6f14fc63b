#include "capture/model/architecture_catalog.h"

#include <array>
#include <string>

#include "analysis/error.h"
#include "capture/model/families.h"

namespace kvloupe {

std::span<const Architecture> architectures() {
  static constexpr std::array kArchitectures{
      Architecture{"LlamaForCausalLM", parse_llama},
      Architecture{"MistralForCausalLM", parse_mistral},
      Architecture{"Qwen2ForCausalLM", parse_qwen2},
      Architecture{"Qwen3ForCausalLM", parse_qwen3},
  };
  return kArchitectures;
}

namespace {

constexpr int kDeepestJson = 64;

nlohmann::json parse_json(const std::string& text, const std::string& where) {
  // Parts of the tree are walked recursively: its depth is bounded before there is one.
  const auto check = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepestJson) throw FileError(where, "is nested too deep for a model's config");
    return true;
  };
  return nlohmann::json::parse(text, check, /*allow_exceptions=*/false);
}

}  // namespace

ModelConfig parse_model_config(const std::string& text, const std::string& where) {
  const nlohmann::json root = parse_json(text, where);
  const ConfigReader reader(root, where);
  if (root.is_discarded()) reader.fail("is not JSON; is the download complete?");
  if (!root.is_object()) reader.fail("is not a model's config (a JSON object is expected)");

  const nlohmann::json* names = reader.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    reader.fail("the field architectures is missing; a Hugging Face model folder is expected");
  }
  const auto name = names->front().get<std::string>();
  std::string known;
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == name) {
      ModelConfig config = architecture.parse(reader);
      config.architecture = name;
      config.text = text;
      return config;
    }
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  reader.fail("the architecture " + in_one_line(name) + " is not supported; this version runs " + known);
}

}  // namespace kvloupe
