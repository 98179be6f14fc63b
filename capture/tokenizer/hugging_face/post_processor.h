#pragma once

#include <cstdint>
#include <optional>

#include "capture/tokenizer/hugging_face/json_part.h"

namespace kvloupe {

/// The token that a tokenizer.json's post-processor puts before a text; none where it puts none.
/// Throws FileError (UnsupportedTokenizer for kinds kvloupe does not have, and for templates that
/// put more around a text than one token before it).
std::optional<std::int32_t> read_first_token(const JsonPart& post_processor);

}  // namespace kvloupe
