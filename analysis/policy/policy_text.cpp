#include "analysis/policy/policy_text.h"

#include <fmt/format.h>

namespace kvloupe {

std::string value_text(const SpecValue& value) {
  if (const double* number = std::get_if<double>(&value)) return number_text(*number);
  if (const Percent* percent = std::get_if<Percent>(&value)) {
    return number_text(percent->value) + "%";
  }
  return std::get<std::string>(value);
}

std::string range_text(const ParameterInfo& parameter) {
  switch (parameter.type) {
    case ParameterType::number_or_word:
    case ParameterType::word: {
      std::string words;
      for (const std::string& word : parameter.words) words += (words.empty() ? "" : "|") + word;
      if (parameter.type == ParameterType::word) return words;
      return number_text(parameter.minimum) + " to " + number_text(parameter.maximum) + " or " +
             words;
    }
    case ParameterType::text:
      return "\"text\"";
    case ParameterType::flag:
      return "0|1";
    case ParameterType::share:
      return "count or %";
    case ParameterType::count:
    case ParameterType::number:
      break;
  }
  return number_text(parameter.minimum) + " to " + number_text(parameter.maximum) +
         (parameter.odd ? ", odd" : "");
}

namespace {
constexpr const char* kHead =
    R"(<!-- Written by `kvloupe policies --markdown`. Do not edit: change the catalogue and write it anew. -->
# Policies

A policy is one line: a score, then modifiers in any order, joined by `+`, such as
`snapkv(pool=max)+adakv+critical`. At each step, once a block was appended and has attended, the score
says what each entry of the cache is worth, protection keeps some whatever their score, allocation says
how many entries each head and layer may hold, selection fills them, merging says what becomes of
others.

Notation: one head with a cache of n entries in token order, keys k, values v, budget N; A the softmax
rows of the step's queries over that cache; W_O the slice of the output projection of one query head.
Statistics of attention are means over the query heads that share the head. Of equal scores the later
token is kept. A share such as `10%` is of the budget.

Where the model has a sliding window of W tokens, entries that no later query sees leave the cache once
the block has attended, before the policy decides, as in a model's own rolling cache: at most W - 1 are
left. The policy knows nothing of the others: they are not candidates, use no budget and are not part of n,
anchors, merging sets or what others are given, and their leaving is not an eviction. A token that `sink` or
`sinks` protects leaves like any other. A query pays the attention that it paid as it ran, so that rows
of A may sum to less than 1 over the entries left.
)";

/// A table cell: pipes would end it.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

std::string section(const PolicyEntry& entry) {
  std::string text = fmt::format("\n### {}\n\n{}.\n\n", entry.name, entry.summary);
  text += fmt::format("- formula: `{}`\n- source: {}\n", entry.formula, entry.source);
  if (!entry.differences.empty()) {
    text += fmt::format("- in other codes: {}\n", entry.differences);
  }
  if (!entry.example.empty()) text += fmt::format("- example: `{}`\n", entry.example);
  if (entry.parameters.empty()) return text;
  text += "\n| parameter | default | values | meaning |\n| --- | --- | --- | --- |\n";
  for (const ParameterInfo& parameter : entry.parameters) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", parameter.name,
                        parameter.required ? "required" : value_text(parameter.default_value),
                        cell(range_text(parameter)), cell(parameter.meaning));
  }
  return text;
}
}  // namespace

std::string policies_markdown() {
  std::string text = kHead;
  std::string_view kind;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (kind != kind_name(entry.kind())) {
      kind = kind_name(entry.kind());
      text += fmt::format("\n## {}\n", entry.kind() == PartKind::score
                                           ? std::string("Scores")
                                           : fmt::format("Modifiers: {}", kind));
    }
    text += section(entry);
  }
  return text;
}

}  // namespace kvloupe
