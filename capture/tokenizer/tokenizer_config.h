#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace kvloupe {

/// What tokenizer_config.json, which may lie beside any tokenizer file, says of the tokens around a
/// text. Nothing where the file or a field is absent.
struct TokenizerConfig {
  std::optional<bool> add_bos_token;
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
};

/// Throws FileError: unreadable, no JSON object, a field of the wrong type.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace kvloupe
