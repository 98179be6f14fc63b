#include "app/lesson/answer.h"

#include <algorithm>

#include "analysis/trace/given_tokens.h"

namespace kvloupe::lesson {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Tokens `first` to `last`, both included, as far as their text is known.
std::string text_of(const TokenTable& tokens, int first, int last) {
  std::string joined;
  for (int i = std::max(first, 0); i <= last && i < static_cast<int>(tokens.text.size()); ++i)
    joined += tokens.text[static_cast<std::size_t>(i)];
  return joined;
}

/// Begin and end of the last run of digits; 0 and 0 if there is none.
std::pair<std::size_t, std::size_t> last_digits(const std::string& text) {
  const auto end = std::find_if(text.rbegin(), text.rend(), is_digit);
  const auto begin = std::find_if_not(end, text.rend(), is_digit);
  return {static_cast<std::size_t>(begin.base() - text.begin()),
          static_cast<std::size_t>(end.base() - text.begin())};
}

}  // namespace

std::pair<int, int> segment_of(const TokenTable& tokens, const std::string& name) {
  const auto named = std::find(tokens.segment_names.begin(), tokens.segment_names.end(), name);
  const auto wanted = named - tokens.segment_names.begin();
  const auto is_inside = [&](std::uint8_t segment) { return segment == wanted; };
  const auto first = std::find_if(tokens.segment.begin(), tokens.segment.end(), is_inside);
  if (named == tokens.segment_names.end() || first == tokens.segment.end()) return {-1, -1};
  const auto end = std::find_if_not(first, tokens.segment.end(), is_inside);
  return {static_cast<int>(first - tokens.segment.begin()),
          static_cast<int>(end - tokens.segment.begin()) - 1};
}

std::string needle_number(const TokenTable& tokens) {
  const auto [first, last] = segment_of(tokens, "needle");
  if (first < 0) return {};
  const std::string text = text_of(tokens, first, last);
  const auto [begin, end] = last_digits(text);
  return text.substr(begin, end - begin);
}

int needle_token(const TokenTable& tokens) {
  const auto [first, last] = segment_of(tokens, "needle");
  if (first < 0) return -1;
  const auto [begin, end] = last_digits(text_of(tokens, first, last));
  if (begin == end) return -1;
  for (int token = first; token <= last; ++token) {
    if (text_of(tokens, first, token).size() > begin) return token;
  }
  return -1;
}

std::string first_sentence(const std::string& text) {
  constexpr int kMostWords = 16;
  const std::size_t from = std::min(text.find_first_not_of(" \n"), text.size());
  const std::string sentence =
      text.substr(from, std::min(text.find_first_of(".\n", from), text.size()) - from);
  std::size_t end = 0;
  for (int words = 0; words < kMostWords; ++words) {
    end = sentence.find(' ', end + 1);
    if (end == std::string::npos) return sentence;
  }
  return sentence.substr(0, end) + " …";
}

std::string answer_text(const Trace& trace) {
  const GivenTokens given = given_tokens(trace);
  if (!given.range.empty()) return first_sentence(given.own_text);
  return first_sentence(text_of(trace.tokens(), trace.run().prompt_length, trace.length() - 1));
}

std::optional<bool> is_right(const std::string& answer, const std::string& number) {
  if (number.empty() || answer.empty()) return std::nullopt;
  const auto first = std::find_if(answer.begin(), answer.end(), is_digit);
  const auto end = std::find_if_not(first, answer.end(), is_digit);
  return std::string(first, end) == number;
}

}  // namespace kvloupe::lesson
