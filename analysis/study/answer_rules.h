#pragma once
// Rules for an answer that a program can check, in IFEval's manner (Zhou et al. 2023); the rules
// are kvloupe's own.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe {

/// A rule of a prompt: what kind, and what stands for {text} and {count} in its instruction.
struct AnswerRule {
  std::string rule;
  std::string text = {};
  int count = 0;
  bool operator==(const AnswerRule&) const = default;
};
template <typename Json>
void to_json(Json& json, const AnswerRule& rule) {
  json = Json{{"rule", rule.rule}};
  if (!rule.text.empty()) json["text"] = rule.text;
  if (rule.count != 0) json["count"] = rule.count;
}
template <typename Json>
void from_json(const Json& json, AnswerRule& rule) {
  rule = {json.at("rule").template get<std::string>(), json.value("text", std::string()),
          json.value("count", 0)};
}

/// A kind of rules.
struct AnswerRuleKind {
  const char* name;
  const char* instruction;  // what the prompt says, with {text} and {count} where it needs them
  bool (*obeyed)(std::string_view answer, const AnswerRule& rule);
  bool needs(const char* part) const {  // {text} or {count}
    return std::string_view(instruction).find(part) != std::string_view::npos;
  }
};

std::span<const AnswerRuleKind> answer_rule_kinds();

/// What the prompt says. Throws WorkError, in words that follow "the rule", where the kind is not
/// known or the rule lacks what its instruction needs.
std::string instruction_of(const AnswerRule& rule);

/// The share of the rules that an answer obeys. An answer without a word obeys none. Throws as
/// instruction_of().
double rules_followed(std::string_view answer, std::span<const AnswerRule> rules);

/// Runs of letters, digits and characters beyond ASCII, in small letters.
std::vector<std::string> plain_words(std::string_view text);

}  // namespace kvloupe
