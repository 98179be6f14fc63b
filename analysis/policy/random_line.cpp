#include "analysis/policy/random_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

namespace {
bool has(const std::vector<PolicySpec>& some, const PolicySpec& one) {
  return std::find(some.begin(), some.end(), one) != some.end();
}
}  // namespace

PolicySpec random_line(const PolicySpec& policy) {
  PolicySpec line = parse_policy("random");
  for (const SpecPart& part : policy.parts) {
    const PolicyEntry& entry = *find_policy(part.name);
    if (entry.as<ProtectionBuilder>() != nullptr || entry.as<ScheduleBuilder>() != nullptr)
      line.parts.push_back(part);
  }
  std::string text = line.text();
  const SpecPart& score = policy.score();
  const PolicyEntry& entry = *find_policy(score.name);
  if (!entry.own_protection) return line;
  const OwnProtection own = entry.own_protection(score);
  const auto* share = std::get_if<Percent>(&own.last_entries);
  const double last = share != nullptr ? share->value : std::get<double>(own.last_entries);
  if (own.first_tokens > 0 && line.find("sinks") == nullptr)
    text += fmt::format("+sinks({})", own.first_tokens);
  if (last > 0.0 && line.find("recent") == nullptr)
    text += fmt::format("+recent({}{})", number_text(last), share != nullptr ? "%" : "");
  return parse_policy(text);
}

std::vector<PolicySpec> random_lines(const std::vector<PolicySpec>& policies) {
  std::vector<PolicySpec> lines;
  for (const PolicySpec& policy : policies) {
    if (keeps_everything(policy) || policy.score().name == "random") continue;
    PolicySpec line = random_line(policy);
    if (!has(policies, line) && !has(lines, line)) lines.push_back(std::move(line));
  }
  return lines;
}

std::string random_line_name(const PolicySpec& policy, const std::vector<PolicySpec>& policies) {
  const auto parts = [](const PolicySpec& spec) {
    return std::vector<SpecPart>(spec.parts.begin() + 1, spec.parts.end());
  };
  if (policy.score().name != "random" || parts(random_line(policy)) != parts(policy)) return "";
  bool any = false, all = true;
  for (const PolicySpec& other : policies) {
    if (keeps_everything(other) || other.score().name == "random") continue;
    const bool same = parts(random_line(other)) == parts(policy);
    any = any || same;
    all = all && same;
  }
  return !any ? "" : all ? kRandomLine : policy.text();
}

}  // namespace kvloupe
