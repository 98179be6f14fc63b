#pragma once

#include <optional>
#include <string>
#include <utility>

#include "analysis/trace/trace.h"

namespace kvloupe::lesson {

/// First and last token of the first run of tokens of a segment; −1, −1 if there is none.
std::pair<int, int> segment_of(const TokenTable& tokens, const std::string& name);

/// The number that the trace's needle hides: the last digits of its segment "needle". Empty if
/// there is none.
std::string needle_number(const TokenTable& tokens);

/// The token in which that number begins; −1 where there is none.
int needle_token(const TokenTable& tokens);

/// Up to a full stop or the line's end, and no more words than a page has room for (16).
std::string first_sentence(const std::string& text);

/// The first sentence of the model's own answer after the prompt: of its text, or, where another
/// answer was given to it, of what it wrote or would have written itself. Empty: not known.
std::string answer_text(const Trace& trace);

/// Whether the first number of an answer is the needle's; nothing if either is empty.
std::optional<bool> is_right(const std::string& answer, const std::string& number);

}  // namespace kvloupe::lesson
