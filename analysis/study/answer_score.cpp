#include "analysis/study/answer_score.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

#include "analysis/base/text/utf8.h"

namespace kvloupe {

namespace {
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

/// How often each word is there.
std::map<std::string, int> words_of(std::string_view text) {
  std::map<std::string, int> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") ++words[word];
    word.clear();
  };
  for (const char c : in_small_letters(text)) {
    if (is_space(c)) {
      end_word();
    } else if (!is_punctuation(c)) {
      word += c;
    }
  }
  end_word();
  return words;
}

int count(const std::map<std::string, int>& words) {
  int all = 0;
  for (const auto& [word, times] : words) all += times;
  return all;
}
}  // namespace

std::string in_small_letters(std::string_view text) {
  constexpr char32_t kDottedI = 0x130, kDot = 0x307, kFinalSigma = 0x3C2, kSigma = 0x3C3;
  std::string result;
  for (std::size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    length = character_length(text);
    if (length == 0) {
      result += text.substr(0, length = 1);
      continue;
    }
    const char32_t character = first_character(text);
    const auto small =
        static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
    append_character(result, character == kDottedI ? U'i' : small == kFinalSigma ? kSigma : small);
    if (character == kDottedI) append_character(result, kDot);
  }
  return result;
}

std::string first_number(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if(text.begin(), text.end(), is_digit);
  return {first, std::find_if_not(first, text.end(), is_digit)};
}

double found_share(std::string_view text, std::span<const std::string> answers) {
  const std::string said = in_small_letters(text);
  int asked = 0, found = 0;
  for (const std::string& answer : answers) {
    if (answer.empty()) continue;
    ++asked;
    if (said.find(in_small_letters(answer)) != std::string::npos) ++found;
  }
  return asked == 0 ? 0.0 : static_cast<double>(found) / asked;
}

bool has_answer(std::string_view text, std::span<const std::string> answers) {
  return found_share(text, answers) > 0.0;
}

double answer_f1(std::string_view text, std::span<const std::string> answers) {
  const std::map<std::string, int> said = words_of(text);
  double best = 0.0;
  for (const std::string& answer : answers) {
    const std::map<std::string, int> wanted = words_of(answer);
    int common = 0;
    for (const auto& [word, times] : wanted) {
      const auto found = said.find(word);
      if (found != said.end()) common += std::min(times, found->second);
    }
    // The harmonic mean of precision and recall.
    if (common > 0) best = std::max(best, 2.0 * common / (count(said) + count(wanted)));
  }
  return best;
}

}  // namespace kvloupe
