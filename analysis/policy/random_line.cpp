#include "analysis/policy/random_line.h"

#include <algorithm>

#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

namespace {
bool has(const std::vector<PolicySpec>& some, const PolicySpec& one) {
  return std::find(some.begin(), some.end(), one) != some.end();
}

bool is_chance(const PolicySpec& policy) { return entry_of(policy.score()).traits.is_chance; }
}  // namespace

PolicySpec random_line(const PolicySpec& policy) {
  PolicySpec line;
  OwnProtection own;
  if (const auto& protection = entry_of(policy.score()).own_protection)
    own = protection(policy.score());
  for (const PolicyEntry& entry : policy_catalog()) {
    if (entry.traits.is_chance) line.parts.push_back(default_part(entry));
    if (entry.as<ProtectionBuilder>() == nullptr && entry.as<ScheduleBuilder>() == nullptr)
      continue;
    const SpecPart* given = policy.find(entry.name);
    const bool first = entry.traits.protects_first && own.first_tokens > 0;
    const bool last = entry.traits.protects_last && own.last_entries != SpecValue(0.0) &&
                      own.last_entries != SpecValue(Percent{0.0});
    if (given == nullptr && !first && !last) continue;
    line.parts.push_back(given != nullptr ? *given : default_part(entry));
    if (given == nullptr)
      line.parts.back().arguments.front().second =
          first ? SpecValue(static_cast<double>(own.first_tokens)) : own.last_entries;
  }
  return line;
}

std::vector<PolicySpec> random_lines(const std::vector<PolicySpec>& policies) {
  std::vector<PolicySpec> lines;
  for (const PolicySpec& policy : policies) {
    if (keeps_everything(policy) || is_chance(policy)) continue;
    PolicySpec line = random_line(policy);
    if (!has(policies, line) && !has(lines, line)) lines.push_back(std::move(line));
  }
  return lines;
}

std::string random_line_name(const PolicySpec& policy, const std::vector<PolicySpec>& policies) {
  const auto parts = [](const PolicySpec& spec) {
    return std::vector<SpecPart>(spec.parts.begin() + 1, spec.parts.end());
  };
  if (!is_chance(policy) || parts(random_line(policy)) != parts(policy)) return "";
  bool any = false, all = true;
  for (const PolicySpec& other : policies) {
    if (keeps_everything(other) || is_chance(other)) continue;
    const bool same = parts(random_line(other)) == parts(policy);
    any = any || same;
    all = all && same;
  }
  return !any ? "" : all ? kRandomLine : policy.text();
}

}  // namespace kvloupe
