#include "app/session/interventions.h"

#include <algorithm>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/token_rule.h"

namespace kvloupe::window {

namespace {
std::string& word_of(SpecPart& part, std::string_view name) {
  for (auto& [parameter, value] : part.arguments) {
    if (parameter == name) return std::get<std::string>(value);
  }
  throw UsageError("policy: " + part.name + " names no tokens");
}

void add_tokens(std::string& tokens, TokenRange more) {
  std::vector<TokenRange> ranges;
  read_tokens(tokens, ranges);
  const bool there = std::any_of(ranges.begin(), ranges.end(), [&](const TokenRange& range) {
    return range.contains(more.first) && range.contains(more.end - 1);
  });
  if (!there) tokens += (tokens.empty() ? "" : ";") + ranges_text(more);
}

std::string name_of(const HeadIndex& head) {
  return std::to_string(head.layer) + "." + std::to_string(head.head);
}

/// No heads are all heads.
void add_head(std::string& heads, std::optional<HeadIndex> head) {
  if (heads.empty()) return;
  if (!head) return heads.clear();
  std::vector<HeadName> names;
  read_heads(heads, names);
  const bool there = std::any_of(names.begin(), names.end(), [&](const HeadName& name) {
    return name.layer == head->layer && (name.head < 0 || name.head == head->head);
  });
  if (!there) heads += ";" + name_of(*head);
}
}  // namespace

std::string ranges_text(TokenRange tokens) {
  const std::string first = std::to_string(tokens.first);
  return tokens.end - tokens.first > 1 ? first + "-" + std::to_string(tokens.end - 1) : first;
}

PolicySpec with_intervention(PolicySpec policy, Intervention what, TokenRange tokens,
                             std::optional<HeadIndex> head) {
  const std::string name = what == Intervention::keep ? "keep" : "drop";
  const auto found = std::find_if(policy.parts.begin(), policy.parts.end(),
                                  [&](const SpecPart& part) { return part.name == name; });
  if (found != policy.parts.end()) {
    add_tokens(word_of(*found, "tokens"), tokens);
    add_head(word_of(*found, "heads"), head);
    return parse_policy(policy.text());
  }
  SpecPart part = default_part(*find_policy(name));
  word_of(part, "tokens") = ranges_text(tokens);
  if (head) word_of(part, "heads") = name_of(*head);
  policy.parts.push_back(std::move(part));
  return parse_policy(policy.text());
}

}  // namespace kvloupe::window
