#pragma once

#include <functional>
#include <string>
#include <vector>

#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/limits.h"

namespace kvloupe {

/// A token on its way back to text. What bytes stand for need not be UTF-8: a character may be cut
/// between two tokens.
struct DecodedToken {
  std::string text;
  bool is_added = false;  // an added token's content is plain text
};

/// Turns the pieces of a vocabulary back into text; the texts joined are the result.
using Decoder = std::function<void(std::vector<DecodedToken>&, const Limits&)>;

/// The decoder a tokenizer.json describes; an empty function where it is null. `of_one_piece`: made
/// to show single tokens, which keep the space a text's beginning would lose. Throws FileError
/// (UnsupportedTokenizer for kinds kvloupe does not have).
Decoder make_decoder(const JsonPart& part, bool of_one_piece);

}  // namespace kvloupe
