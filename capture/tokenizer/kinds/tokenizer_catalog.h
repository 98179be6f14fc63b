#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// Opens the tokenizer of a model folder or GGUF file. Throws FileError: no tokenizer that kvloupe
/// knows, or a broken one; UnsupportedTokenizer: none that kvloupe supports.
std::unique_ptr<Tokenizer> open_tokenizer(const std::filesystem::path& folder);

/// Whether the folder has a tokenizer file that kvloupe knows, or the GGUF file a tokenizer.
bool has_tokenizer(const std::filesystem::path& folder);

}  // namespace kvloupe
