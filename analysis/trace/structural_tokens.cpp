#include "analysis/trace/structural_tokens.h"

#include <algorithm>
#include <array>

namespace kvloupe {

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
