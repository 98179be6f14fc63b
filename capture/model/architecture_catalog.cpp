#include "capture/model/architecture_catalog.h"

#include <array>
#include <string>

#include "analysis/one_line.h"
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

ModelConfig parse_model_config(const std::string& text, const std::string& where) {
  const nlohmann::json root = parse_config_object(text, where, "a model's config");
  const ConfigReader reader(root, where);

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
  constexpr std::size_t kLongestName = 40;
  reader.fail("the architecture " + in_one_line(name, kLongestName) +
              " is not among those that kvloupe-capture runs (" + known +
              "); the Python package captures most decoders of transformers: python -m kvloupe "
              "capture");
}

}  // namespace kvloupe
