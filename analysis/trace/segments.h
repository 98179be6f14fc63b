#pragma once

#include <string_view>

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

}  // namespace kvloupe
