#include "analysis/trace/segments.h"

#include <algorithm>
#include <array>

#include "analysis/base/core/error.h"

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

namespace {
constexpr std::array<std::string_view, 34> kDelimiters = {
    ".", ",", ";", ":", "!", "?",  "(",  ")",  "[",  "]",  "{",  "}",  "\"", "'",  "`",  "…",  "“",
    "”", "‘", "’", "«", "»", "。", "，", "；", "：", "！", "？", "、", "（", "）", "「", "」", "؟"};

/// Whether the text is delimiters and blanks, with a delimiter at least.
bool delimits(std::string_view text) {
  bool any = false;
  while (!text.empty()) {
    if (text.front() == ' ' || text.front() == '\t') {
      text.remove_prefix(1);
      continue;
    }
    const auto found =
        std::find_if(kDelimiters.begin(), kDelimiters.end(),
                     [&](std::string_view delimiter) { return text.starts_with(delimiter); });
    if (found == kDelimiters.end()) return false;
    any = true;
    text.remove_prefix(found->size());
  }
  return any;
}

}  // namespace

bool is_structural(std::string_view text) {
  const bool special = text.size() > 2 && text.front() == '<' && text.back() == '>';
  return special || text.find('\n') != std::string_view::npos || delimits(text);
}

std::vector<char> structural_tokens(const TokenTable& tokens) {
  std::vector<char> result;
  const auto& segment = tokens.segment;
  for (std::size_t i = 0; i < tokens.text.size(); ++i) {
    const bool border =
        i == 0 || (!segment.empty() &&
                   (segment[i] != segment[i - 1] || tokens.segment_names[segment[i]] == "special"));
    result.push_back(border || is_structural(tokens.text[i]) ? 1 : 0);
  }
  return result;
}

}  // namespace kvloupe
