#include "analysis/policy/random_line.h"

#include <algorithm>

#include "analysis/policy/policy_catalog.h"

namespace kvloupe {

std::vector<PolicySpec> random_lines(const std::vector<PolicySpec>& policies) {
  std::vector<PolicySpec> lines;
  const auto has = [](const std::vector<PolicySpec>& some, const PolicySpec& one) {
    return std::find(some.begin(), some.end(), one) != some.end();
  };
  for (const PolicySpec& policy : policies) {
    if (keeps_everything(policy)) continue;
    PolicySpec line = parse_policy("random");
    for (const SpecPart& part : policy.parts) {
      const PolicyEntry& entry = *find_policy(part.name);
      if (entry.as<ProtectionBuilder>() != nullptr || entry.as<ScheduleBuilder>() != nullptr)
        line.parts.push_back(part);
    }
    line = parse_policy(line.text());
    if (!has(policies, line) && !has(lines, line)) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace kvloupe
