#include "app/lesson/answer.h"

#include <algorithm>

namespace kvloupe::lesson {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string text_of(const Trace& trace, int first, int last) {
  const std::vector<std::string>& text = trace.tokens().text;
  std::string joined;
  for (int i = std::max(first, 0); i <= last && i < static_cast<int>(text.size()); ++i)
    joined += text[static_cast<std::size_t>(i)];
  return joined;
}

std::string without_spaces_before(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of(" \n"), text.size()));
}

}  // namespace

std::pair<int, int> segment_of(const Trace& trace, const std::string& name) {
  const TokenTable& tokens = trace.tokens();
  const auto named = std::find(tokens.segment_names.begin(), tokens.segment_names.end(), name);
  const auto wanted = named - tokens.segment_names.begin();
  const auto is_inside = [&](std::uint8_t segment) { return segment == wanted; };
  const auto first = std::find_if(tokens.segment.begin(), tokens.segment.end(), is_inside);
  if (named == tokens.segment_names.end() || first == tokens.segment.end()) return {-1, -1};
  const auto end = std::find_if_not(first, tokens.segment.end(), is_inside);
  return {static_cast<int>(first - tokens.segment.begin()),
          static_cast<int>(end - tokens.segment.begin()) - 1};
}

std::string needle_number(const Trace& trace) {
  const auto [first, last] = segment_of(trace, "needle");
  if (first < 0) return {};
  const std::string text = text_of(trace, first, last);
  auto end = std::find_if(text.rbegin(), text.rend(), is_digit);
  auto begin = std::find_if_not(end, text.rend(), is_digit);
  return {begin.base(), end.base()};
}

std::string answer_text(const Trace& trace) {
  const int prompt = trace.run().prompt_length;
  const std::string generated = without_spaces_before(text_of(trace, prompt, trace.length() - 1));
  const auto predicted = trace.predictions();
  const std::size_t at =
      static_cast<std::size_t>(prompt - 1) * static_cast<std::size_t>(predicted ? predicted->k : 0);
  if (prompt < 1 || !predicted || predicted->k < 1 || at >= predicted->token_ids.size())
    return generated;
  const std::int32_t first = predicted->token_ids[at];
  const std::vector<std::int32_t>& ids = trace.tokens().ids;
  const auto follows = static_cast<std::size_t>(prompt);
  if (follows < ids.size() && ids[follows] == first) return generated;
  const auto vocabulary = trace.vocabulary();
  if (!vocabulary || first < 0 || static_cast<std::size_t>(first) >= vocabulary->size()) return {};
  return without_spaces_before((*vocabulary)[static_cast<std::size_t>(first)]);
}

std::optional<bool> answer_is_right(const Trace& trace) {
  const std::string number = needle_number(trace);
  const std::string answer = answer_text(trace);
  if (number.empty() || answer.empty()) return std::nullopt;
  return answer.starts_with(number) &&
         (answer.size() == number.size() || !is_digit(answer[number.size()]));
}

}  // namespace kvloupe::lesson
