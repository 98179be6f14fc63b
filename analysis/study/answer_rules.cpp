#include "analysis/study/answer_rules.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>

#include "analysis/error.h"
#include "analysis/study/answer_score.h"
#include "analysis/text.h"
#include "analysis/utf8.h"

namespace kvloupe {

namespace {
constexpr const char* kBlanks = " \t\r\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Whether a character of the text has the property, such as "is a capital letter".
bool has_character(std::string_view text, int (*property)(utf8proc_int32_t)) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length > 0 && property(static_cast<utf8proc_int32_t>(first_character(text))) != 0)
      return true;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return false;
}

/// Runs of letters, digits and characters beyond ASCII, in small letters.
std::vector<std::string> plain_words(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : in_small_letters(text)) {
    const bool part = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c & 0x80) != 0;
    if (part) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

long times(std::string_view answer, const std::string& word) {
  const std::vector<std::string> words = plain_words(answer);
  return std::count(words.begin(), words.end(), in_small_letters(word));
}

/// The lines of a text without the blanks around them.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end = 0; end != std::string_view::npos; text.remove_prefix(end + 1)) {
    end = text.find('\n');
    lines.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) break;
  }
  return lines;
}

int bullets(std::string_view answer) {
  const auto lines = lines_of(answer);
  return static_cast<int>(std::count_if(lines.begin(), lines.end(), [](std::string_view line) {
    return line == "-" || line.starts_with("- ");
  }));
}

int paragraphs(std::string_view answer) {
  int count = 0;
  bool blank = true;  // the line before
  for (const std::string_view line : lines_of(answer)) {
    if (blank && !line.empty()) ++count;
    blank = line.empty();
  }
  return count;
}

using Rule = const AnswerRule&;
using Text = std::string_view;

/// The kind of a rule that has what its instruction needs. Throws WorkError.
const AnswerRuleKind& kind_of(const AnswerRule& rule) {
  for (const AnswerRuleKind& kind : answer_rule_kinds()) {
    if (rule.rule != kind.name) continue;
    if (kind.needs("{text}") && trimmed(rule.text).empty())
      throw WorkError(in_quotes(rule.rule) + " needs a \"text\"");
    if (kind.needs("{count}") && rule.count < 1)
      throw WorkError(in_quotes(rule.rule) + " needs a \"count\", at least 1");
    return kind;
  }
  std::string names;
  for (const AnswerRuleKind& kind : answer_rule_kinds())
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  throw WorkError(in_quotes(rule.rule) + " is not one of " + names);
}
}  // namespace

std::span<const AnswerRuleKind> answer_rule_kinds() {
  static const std::vector<AnswerRuleKind> all = {
      {"small_letters",
       "Use no capital letters.",
       [](Text answer, Rule) { return !has_character(answer, utf8proc_isupper); },
       {},
       0,
       0,
       "capitals"},
      {"capitals",
       "Write all letters as capital letters.",
       [](Text answer, Rule) { return !has_character(answer, utf8proc_islower); },
       {},
       0,
       0,
       "small_letters"},
      {"word_times",
       "Use the word \"{text}\" exactly {count} times.",
       [](Text answer, Rule rule) { return times(answer, rule.text) == rule.count; },
       {},
       2,
       4},
      {"without_word",
       "Do not use the word \"{text}\".",
       [](Text answer, Rule rule) { return times(answer, rule.text) == 0; },
       {"very", "also", "which", "many", "other"}},
      {"bullets",
       "Write exactly {count} bullet points, each on a line that begins with \"- \".",
       [](Text answer, Rule rule) { return bullets(answer) == rule.count; },
       {},
       2,
       5},
      {"first_word",
       "Begin with the word \"{text}\".",
       [](Text answer, Rule rule) {
         return plain_words(answer).front() == in_small_letters(rule.text);
       },
       {"well", "first", "indeed", "today", "briefly"}},
      {"last_phrase",
       "End with the phrase \"{text}\"",
       [](Text answer, Rule rule) {
         return in_small_letters(trimmed(answer)).ends_with(in_small_letters(trimmed(rule.text)));
       },
       {"that is all.", "this is the end.", "so much for today.", "there is no more to say."}},
      {"no_comma", "Use no commas.",
       [](Text answer, Rule) { return answer.find(',') == Text::npos; }},
      {"most_words",
       "Use at most {count} words.",
       [](Text answer, Rule rule) { return std::ssize(plain_words(answer)) <= rule.count; },
       {},
       40,
       90},
      {"paragraphs",
       "Write exactly {count} paragraphs, with a blank line between two.",
       [](Text answer, Rule rule) { return paragraphs(answer) == rule.count; },
       {},
       2,
       3},
  };
  return all;
}

bool AnswerRuleKind::needs(const char* part) const {
  return std::string_view(instruction).find(part) != std::string_view::npos;
}

std::string instruction_of(const AnswerRule& rule) {
  return fmt::format(fmt::runtime(kind_of(rule).instruction), fmt::arg("text", rule.text),
                     fmt::arg("count", rule.count));
}

double rules_followed(std::string_view answer, std::span<const AnswerRule> rules) {
  const bool said = !plain_words(answer).empty();
  const auto followed = std::count_if(rules.begin(), rules.end(), [&](const AnswerRule& rule) {
    const AnswerRuleKind& kind = kind_of(rule);  // refuses what it does not know
    return said && kind.obeyed(answer, rule);
  });
  return rules.empty() ? 0.0 : static_cast<double>(followed) / static_cast<double>(rules.size());
}

}  // namespace kvloupe
