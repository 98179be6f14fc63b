#pragma once

#include <functional>

#include "capture/tokenizer/hugging_face/aligned_text.h"
#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/limits.h"

namespace kvloupe {

/// Unicode's normal form C (UAX #15), with utf8proc's tables. O(n log n). A stretch that changes
/// has the whole original stretch as its origin.
AlignedText to_nfc(const AlignedText& text);

/// How a tokenizer changes a text before dividing it.
using Normaliser = std::function<AlignedText(const AlignedText&, const Limits&)>;

/// The normaliser that a tokenizer.json describes; an empty function if it is null. Throws
/// FileError (UnsupportedTokenizer for kinds that kvloupe does not have).
Normaliser make_normaliser(const JsonPart& part);

}  // namespace kvloupe
