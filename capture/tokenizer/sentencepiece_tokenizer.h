#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// tokenizer.model, read by SentencePiece. BOS is used where the file has one, unless
/// tokenizer_config.json beside it says "add_bos_token": false. Throws FileError: unreadable,
/// not a SentencePiece model, tokenizer_config.json broken.
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder);

}  // namespace kvloupe
