#include "analysis/study/prompt_check.h"

#include <algorithm>

#include "analysis/study/answer_score.h"
#include "analysis/text.h"

namespace kvloupe {

namespace {
bool is_word_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c & 0x80) != 0;
}

/// Whether the word stands in a text with no letter or digit beside it.
bool has_word(const std::string& text, const std::string& word) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word_part(text[at - 1])) &&
        (end == text.size() || !is_word_part(text[end])))
      return true;
  }
  return false;
}

template <typename List>
bool is_twice(const List& list, const std::string& text) {
  return std::count(list.begin(), list.end(), text) > 1;
}
}  // namespace

std::string prompt_doubt(const PromptParts& parts, std::span<const std::string> needles) {
  std::string whole, outside, question;  // whole: the context with its needles
  bool marked = false;
  for (const auto& [name, text] : parts.segments) {
    const bool needle = name == "needle";
    marked |= needle;
    if (name == "question") {
      question += text;
    } else {
      whole += text;
      outside += needle ? "\n" : text;  // no answer spans the gap
    }
  }
  for (const std::string& needle : needles) {
    const std::size_t at = needle.empty() ? std::string::npos : whole.find(needle);
    if (at == std::string::npos) continue;
    if (is_twice(needles, needle) || whole.find(needle, at + 1) != std::string::npos)
      return "has the needle " + in_quotes(needle) + " twice; marked is the first";
  }
  outside = marked ? in_small_letters(outside) : "";
  question = in_small_letters(question);
  for (const std::string& answer : parts.answers) {
    if (answer.empty()) return "has an empty answer, which no score counts";
    const std::string small = in_small_letters(answer);
    if (is_twice(parts.answers, answer)) return "has the answer " + in_quotes(answer) + " twice";
    if (outside.find(small) != std::string::npos)
      return "has the answer " + in_quotes(answer) + " outside of its needle, too";
    if (has_word(question, small))
      return "has the answer " + in_quotes(answer) + " in its question";
  }
  return {};
}

}  // namespace kvloupe
