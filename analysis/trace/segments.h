#pragma once

#include <string_view>
#include <vector>

#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Tokens [first, end).
struct TokenRange {
  int first = 0, end = 0;
  bool empty() const { return end <= first; }
  bool contains(int token) const { return token >= first && token < end; }
  bool operator==(const TokenRange&) const = default;
};

/// From the first to the last token of the segment of that name; empty where the trace has none.
TokenRange segment_range(const TokenTable& tokens, std::string_view name);

/// The first token of the segment "question" in the prompt; the prompt's length where there is
/// none.
int question_begin(const TokenTable& tokens, const RunInfo& run);

/// The first token of the prompt that a policy with this compression does not act on: the begin of
/// the segment "question", or the prompt's end where there is none. With regular compression the
/// sequence's end: it acts on everything. Throws UsageError where nothing comes before the
/// question.
int compression_end(const TokenTable& tokens, const RunInfo& run, Compression compression);

/// Whether each token [T] is structural: the first of all, the first of each segment, special
/// tokens (those of the segment "special", and pieces such as <s> or <|im_end|>), line ends, and
/// tokens of delimiters alone ( . , ; : ! ? and brackets, quotation marks, their full-width forms).
/// After the boundary tokens of "Protection Is (Nearly) All You Need" (Garcia, 2026), whose list is
/// not fully known. Empty for a table without texts.
std::vector<char> structural_tokens(const TokenTable& tokens);
/// Whether a token is structural by its own text, whatever its segment.
bool is_structural(std::string_view text);

}  // namespace kvloupe
