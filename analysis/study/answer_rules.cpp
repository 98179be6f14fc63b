#include "analysis/study/answer_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/study/answer_score.h"

namespace kvloupe {

namespace {
using Text = std::string_view;
using Rule = const AnswerRule&;

Text trimmed(Text text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

bool has_capital(std::string said) {
  for (std::size_t at; (at = said.find("ς")) != std::string::npos;) said.replace(at, 2, "σ");
  return in_small_letters(said) != said;  // where every small sigma is σ
}

long times(Text answer, const std::string& word) {
  const std::vector<std::string> words = plain_words(answer);
  return std::count(words.begin(), words.end(), in_small_letters(word));
}

/// Lines that begin a bullet point; lines that begin a paragraph.
struct Layout {
  int bullets = 0, paragraphs = 0;
  explicit Layout(Text text) {
    std::istringstream lines{std::string(text)};
    bool blank = true;
    for (std::string whole; std::getline(lines, whole);) {
      const Text line = trimmed(whole);
      if (line == "-" || line.starts_with("- ")) ++bullets;
      if (blank && !line.empty()) ++paragraphs;
      blank = line.empty();
    }
  }
};

/// The kind of a rule that has what its instruction needs. Throws WorkError.
const AnswerRuleKind& kind_of(Rule rule) {
  for (const AnswerRuleKind& kind : answer_rule_kinds()) {
    if (rule.rule != kind.name) continue;
    if (kind.needs("{text}") && trimmed(rule.text).empty())
      throw WorkError(in_quotes(rule.rule) + " needs a \"text\"");
    if (kind.needs("{count}") && rule.count < 1)
      throw WorkError(in_quotes(rule.rule) + " needs a \"count\", at least 1");
    return kind;
  }
  throw WorkError(in_quotes(rule.rule) + " is not a rule of docs/tasks.md");
}
}  // namespace

std::span<const AnswerRuleKind> answer_rule_kinds() {
  static const std::vector<AnswerRuleKind> all = {
      {"small_letters", "Use no capital letters.",
       [](Text said, Rule) { return !has_capital(std::string(said)); }},
      {"no_digit", "Use no digits.",
       [](Text said, Rule) { return said.find_first_of("0123456789") == Text::npos; }},
      {"word_times", "Use the word \"{text}\" exactly {count} times.",
       [](Text said, Rule rule) { return times(said, rule.text) == rule.count; }},
      {"without_word", "Do not use the word \"{text}\".",
       [](Text said, Rule rule) { return times(said, rule.text) == 0; }},
      {"bullets", "Write exactly {count} bullet points, each on a line that begins with \"- \".",
       [](Text said, Rule rule) { return Layout(said).bullets == rule.count; }},
      {"first_word", "Begin with the word \"{text}\".",
       [](Text said, Rule rule) { return plain_words(said)[0] == in_small_letters(rule.text); }},
      {"last_phrase", "End with the phrase \"{text}\"",
       [](Text said, Rule rule) {
         return in_small_letters(trimmed(said)).ends_with(in_small_letters(trimmed(rule.text)));
       }},
      {"no_comma", "Use no commas.", [](Text said, Rule) { return said.find(',') == Text::npos; }},
      {"most_words", "Use at most {count} words.",
       [](Text said, Rule rule) { return std::ssize(plain_words(said)) <= rule.count; }},
      {"paragraphs", "Write exactly {count} paragraphs, with a blank line between two.",
       [](Text said, Rule rule) { return Layout(said).paragraphs == rule.count; }},
  };
  return all;
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

std::vector<std::string> plain_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : in_small_letters(text)) {
    const bool before = inside;
    inside = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c & 0x80) != 0;
    if (inside && !before) words.emplace_back();
    if (inside) words.back() += c;
  }
  return words;
}

}  // namespace kvloupe
