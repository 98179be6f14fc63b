#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "capture/tokenizer/prompt.h"

namespace kvloupe {

/// A prompt as results carry it: `ids`, decimal with blanks between them, and `segments`, names
/// with numbers of tokens, [["special", 1], ["context", 300], …].
nlohmann::ordered_json stored_prompt(const TokenSequence& tokens);

/// The tokens of stored_prompt(). Throws FileError, naming `path`, for anything else.
TokenSequence read_stored_prompt(const nlohmann::json& prompt, const std::filesystem::path& path);

}  // namespace kvloupe
