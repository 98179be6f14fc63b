#include "capture/eval/answer_score.h"

#include <algorithm>
#include <map>

#include "capture/tokenizer/unicode.h"

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

std::string first_number(const std::string& text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if(text.begin(), text.end(), is_digit);
  return {first, std::find_if_not(first, text.end(), is_digit)};
}

bool has_answer(std::string_view text, std::span<const std::string> answers) {
  const std::string said = in_small_letters(text);
  return std::any_of(answers.begin(), answers.end(), [&](const std::string& answer) {
    return !answer.empty() && said.find(in_small_letters(answer)) != std::string::npos;
  });
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
