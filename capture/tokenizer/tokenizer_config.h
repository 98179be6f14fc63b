#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace kvloupe {

/// The tokens around a text as tokenizer_config.json names them, which may accompany any tokenizer
/// file. Nothing if the file or a field is absent.
struct TokenizerConfig {
  std::optional<bool> add_bos_token;
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  nlohmann::ordered_json words;  // these and the other special tokens, as chat templates name them
  nlohmann::json chat_template;  // a text, or a list of objects with name and template
};

/// Throws FileError: unreadable, not a JSON object, a field of the wrong type.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace kvloupe
