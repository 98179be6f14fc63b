#pragma once

#include <cstdint>
#include <optional>

#include "capture/tokenizer/hugging_face/json_part.h"

namespace kvloupe {

/// The token that a tokenizer.json's post-processor puts before a text, or nothing. Throws
/// FileError (UnsupportedTokenizer for kinds that kvloupe does not have, and for templates that add
/// more than one token before the text).
std::optional<std::int32_t> read_first_token(const JsonPart& post_processor);

}  // namespace kvloupe
