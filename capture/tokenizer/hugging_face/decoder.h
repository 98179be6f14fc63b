#pragma once

#include <functional>
#include <string>
#include <vector>

#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/limits.h"

namespace kvloupe {

/// A token while it is decoded to text. Its bytes need not be UTF-8: a character may be divided
/// between two tokens.
struct DecodedToken {
  std::string text;
  bool is_added = false;  // an added token's content is plain text
};

/// Decodes the pieces of a vocabulary to text; the result is the joined texts.
using Decoder = std::function<void(std::vector<DecodedToken>&, const Limits&)>;

/// The decoder that a tokenizer.json describes; an empty function if it is null. `of_one_piece`:
/// for showing single tokens, which keep the space that the beginning of a text loses. Throws
/// FileError (UnsupportedTokenizer for kinds that kvloupe does not have).
Decoder make_decoder(const JsonPart& part, bool of_one_piece);

}  // namespace kvloupe
