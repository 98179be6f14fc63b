#include "analysis/trace/segments.h"

#include <algorithm>

#include "analysis/error.h"

namespace kvloupe {

TokenRange segment_range(const TokenTable& tokens, std::string_view name) {
  TokenRange range;
  for (std::size_t i = 0; i < tokens.segment.size(); ++i) {
    if (tokens.segment_names[tokens.segment[i]] != name) continue;
    if (range.empty()) range.first = static_cast<int>(i);
    range.end = static_cast<int>(i) + 1;
  }
  return range;
}

int question_begin(const TokenTable& tokens, const RunInfo& run) {
  const TokenRange question = segment_range(tokens, "question");
  return question.empty() ? run.prompt_length : std::min(question.first, run.prompt_length);
}

int compression_end(const TokenTable& tokens, const RunInfo& run, Compression compression) {
  if (compression == Compression::regular) return run.tokens();
  const int question = question_begin(tokens, run);
  if (question == run.prompt_length) return question;
  const auto is_text = [&](std::uint8_t segment) {
    return tokens.segment_names[segment] != "special";
  };
  if (std::none_of(tokens.segment.begin(), tokens.segment.begin() + question, is_text)) {
    throw UsageError(
        "compression context-only: the prompt begins with its question, so there is no context to "
        "act on; use regular");
  }
  return question;
}

}  // namespace kvloupe
