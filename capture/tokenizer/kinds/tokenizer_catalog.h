#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// Opens the tokenizer of a model folder or GGUF file. Throws FileError: no tokenizer that kvloupe
/// knows, or a broken one; UnsupportedTokenizer: none that kvloupe supports.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder);

/// The same with its chat template, which writes prompts as messages after the message `system` of
/// the system (empty: none): tokenizer.chat_template of a GGUF file; chat_template.jinja, or
/// chat_template in tokenizer_config.json or chat_template.json, of a folder. Throws FileError
/// where there is none.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder, bool chat,
                                          const std::string& system);

/// Whether the folder has a tokenizer file that kvloupe knows, or the GGUF file a tokenizer.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace kvloupe
