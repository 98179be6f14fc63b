#include "app/figure/choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/replay/typed_values.h"
#include "app/figure/figure.h"

namespace kvloupe::figure {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

double parse_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    throw UsageError(fmt::format("'{}' is not a number", text));
  }
  return value;
}

std::vector<std::string> items_of(std::string_view text) {
  std::vector<std::string> items = split_list(text);
  if (items.empty()) throw UsageError("the list is empty; give at least one item");
  for (const std::string& item : items) {
    if (item.empty()) throw UsageError("a list item is empty; remove a comma");
  }
  return items;
}

void check_meaning(const ChoiceInfo& choice, const std::string& text) {
  switch (choice.kind) {
    case ChoiceKind::word:
      break;
    case ChoiceKind::policies: {
      const PolicySpec any = parse_policy("full");
      parse_policies(text, any, &any);
      break;
    }
    case ChoiceKind::budgets:
      parse_budgets(text);
      break;
    case ChoiceKind::tokens:
      if (trimmed(text).empty()) throw UsageError("name tokens, such as 120-131, or a segment");
      break;  // what the trace has, only the trace knows
    case ChoiceKind::blocks:
      parse_blocks(text);
      break;
    case ChoiceKind::name:
      if (trimmed(text).empty()) throw UsageError("give a name, or leave the choice out");
      break;
    case ChoiceKind::number:
    case ChoiceKind::numbers:
      for (const double value : choice.kind == ChoiceKind::number
                                    ? std::vector<double>{parse_number(trimmed(text))}
                                    : parse_numbers(text)) {
        if (value >= choice.low && value <= choice.high) continue;
        throw UsageError(fmt::format("{} is not within {} to {}", number_text(value),
                                     number_text(choice.low), number_text(choice.high)));
      }
      break;
  }
}

}  // namespace

ChoiceInfo policies_choice(std::string by_default) {
  return {"policies",
          "Policies",
          "Policies, separated by commas, such as keydiff,h2o+recent(10%); A and B stand for the "
          "selected policies",
          {std::move(by_default)},
          ChoiceKind::policies};
}

ChoiceInfo word_choice(std::string name, std::string title, std::string tooltip,
                       std::vector<std::string> values) {
  return {std::move(name), std::move(title), std::move(tooltip), std::move(values)};
}

ChoiceInfo random_choice(const char* as) {
  return word_choice("random", "Random",
                     fmt::format("Chance as a {} beside each policy: random with what the policy "
                                 "protects, acting when it does",
                                 as),
                     {"shown", "hidden"});
}

ChoiceInfo budgets_choice(std::string by_default) {
  return {"budgets",
          "Budgets",
          "Budgets (entries per head, shares of the prompt, or bytes), such as 64,10%,12MB",
          {std::move(by_default)},
          ChoiceKind::budgets};
}

ChoiceInfo blocks_choice(std::string by_default) {
  return {
      "blocks",
      "Blocks",
      "Block sizes (tokens per prompt step), such as 32,128,all; all is the whole prompt at once",
      {std::move(by_default)},
      ChoiceKind::blocks};
}

ChoiceInfo tokens_choice() {
  return {"tokens",
          "Tokens",
          "The tokens that are followed: such as 120-131,140, or the name of a segment of the "
          "prompt. auto: the segment needle, else token 0",
          {"auto", "0", "0-3"},
          ChoiceKind::tokens};
}

ChoiceInfo number_choice(std::string name, std::string title, std::string tooltip,
                         std::string by_default, double low, double high) {
  return {std::move(name),
          std::move(title),
          std::move(tooltip),
          {std::move(by_default)},
          ChoiceKind::number,
          low,
          high};
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  if (trimmed(text).empty()) return items;
  std::size_t start = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0 && !quoted)) {
      items.emplace_back(trimmed(text.substr(start, i - start)));
      start = i + 1;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == '(') {
      ++depth;
    } else if (!quoted && text[i] == ')') {
      depth = std::max(0, depth - 1);
    }
  }
  return items;
}

void check_value(std::string_view figure, const ChoiceInfo& choice, const std::string& text) {
  if (!is_typed(choice)) {
    if (std::find(choice.values.begin(), choice.values.end(), text) != choice.values.end()) return;
    throw UsageError(fmt::format(
        "{}={}: figure {} has no such value; did you mean '{}'? The values are: {}", choice.name,
        text, figure, nearest_word(text, choice.values), fmt::join(choice.values, ", ")));
  }
  try {
    check_meaning(choice, text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}={}: {}", choice.name, text, error.what()));
  }
}

const std::string& choice(const FigureInfo& info, const Choices& choices, std::string_view name) {
  for (const ChoiceInfo& one : info.choices) {
    if (one.name != name) continue;
    const auto it = choices.find(one.name);
    if (it == choices.end()) return one.values.front();
    check_value(info.name, one, it->second);
    return it->second;
  }
  throw UsageError(fmt::format("figure {} has no choice '{}'", info.name, name));
}

std::vector<PolicySpec> parse_policies(std::string_view text, const PolicySpec& a,
                                       const PolicySpec* b) {
  std::vector<PolicySpec> policies;
  for (const std::string& item : items_of(text)) {
    if (item == "B" && b == nullptr) continue;
    const PolicySpec policy = item == "A" ? a : item == "B" ? *b : parse_policy(item);
    if (std::find(policies.begin(), policies.end(), policy) == policies.end())
      policies.push_back(policy);
  }
  if (policies.empty()) policies.push_back(a);  // B alone, and there is none
  return policies;
}

std::vector<double> parse_numbers(std::string_view text) {
  std::vector<double> numbers;
  for (const std::string& item : comma_list(text)) numbers.push_back(parse_number(item));
  return numbers;
}

std::span<const Topic> topics() {
  static constexpr std::array kTopics = {Topic::kept,    Topic::comparisons,  Topic::attention,
                                         Topic::keys,    Topic::perturbation, Topic::values,
                                         Topic::merging, Topic::model_cache};
  return kTopics;
}

std::string_view heading(Topic topic) {
  static constexpr std::string_view kHeadings[] = {"Kept entries",
                                                   "Comparisons",
                                                   "Attention and sinks",
                                                   "Keys (KeyDiff)",
                                                   "Output perturbation (CriticalKV)",
                                                   "Values and output error (CAOTE)",
                                                   "Merging (KVMerger)",
                                                   "In the model's own cache"};
  return kHeadings[static_cast<std::size_t>(topic)];
}

}  // namespace kvloupe::figure
