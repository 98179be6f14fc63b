#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/trace.h"

namespace kvloupe::lesson {

/// First and last token of the first run of tokens of a segment; −1, −1 if there is none.
std::pair<int, int> segment_of(const TokenTable& tokens, const std::string& name);

/// The number that the trace's needle hides: the last digits of its segment "needle". Empty if
/// there is none.
std::string needle_number(const TokenTable& tokens);

/// The token in which that number begins; −1 where there is none.
int needle_token(const TokenTable& tokens);

/// The model's own answer after the prompt. If the model generated the following tokens, their
/// text; if they were given to it, its own answer where the trace has that, else the given tokens
/// as far as it gave them the highest probability, and the first of its own that differs, with "…".
/// Up to the first full stop or line end, at most 16 words; empty if neither is known.
std::string answer_text(const TokenTable& tokens, int prompt_length,
                        const std::optional<Trace::Predictions>& predicted,
                        const std::optional<std::vector<std::string>>& vocabulary);
std::string answer_text(const Trace& trace);

/// Whether the first number of an answer is the needle's; nothing if either is empty.
std::optional<bool> is_right(const std::string& answer, const std::string& number);

}  // namespace kvloupe::lesson
