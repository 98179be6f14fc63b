#pragma once

#include <functional>

#include "capture/tokenizer/hugging_face/aligned_text.h"
#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/limits.h"

namespace kvloupe {

/// Divides pieces of text into smaller ones; tokens never cross their boundaries.
using PreTokeniser = std::function<PieceList(const PieceList&, const Limits&)>;

/// The pre-tokeniser that a tokenizer.json describes; an empty function if it is null. Throws
/// FileError (UnsupportedTokenizer for kinds that kvloupe does not have).
PreTokeniser make_pre_tokeniser(const JsonPart& part);

/// Metaspace puts its mark before a text: always, only at the very beginning, never.
enum class PrependScheme { always, first, never };

/// Reads "prepend_scheme", or the older "add_prefix_space".
PrependScheme read_prepend_scheme(const JsonPart& part);

/// Reads Metaspace's "replacement", one character.
std::string read_space_mark(const JsonPart& part);

}  // namespace kvloupe
