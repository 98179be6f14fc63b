#pragma once

#include <functional>

#include "capture/tokenizer/hugging_face/aligned_text.h"
#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/limits.h"

namespace kvloupe {

/// What a tokenizer does to a text before it cuts it.
using Normaliser = std::function<AlignedText(const AlignedText&, const Limits&)>;

/// The normaliser a tokenizer.json describes; an empty function where it is null. Throws FileError
/// (UnsupportedTokenizer for kinds kvloupe does not have).
Normaliser make_normaliser(const JsonPart& part);

}  // namespace kvloupe
