#include "app/window/state/policy_variants.h"

#include <algorithm>

#include "analysis/error.h"
#include "analysis/policy/policy_catalog.h"

namespace kvloupe::window {

namespace {

/// The policy with one part put in another way; empty where the catalogue refuses that.
std::string replaced(const PolicySpec& policy, const SpecPart& part, const PartVariant& variant) {
  try {
    const bool is_score = part == policy.score();
    const PolicySpec wanted =
        parse_policy(is_score ? variant.spec : policy.score().name + "+" + variant.spec);
    PolicySpec changed;
    changed.parts.push_back(is_score ? wanted.score() : policy.score());
    const auto add = [&](const SpecPart& modifier) { changed.parts.push_back(modifier); };
    std::for_each(wanted.parts.begin() + 1, wanted.parts.end(), add);
    std::for_each(policy.parts.begin() + 1, policy.parts.end(), [&](const SpecPart& modifier) {
      if (modifier.name != part.name && !changed.find(modifier.name)) add(modifier);
    });
    return parse_policy(changed.text()).text();
  } catch (const UsageError&) {
    return {};
  }
}

}  // namespace

std::vector<PolicyVariant> variants_of(const PolicySpec& policy) {
  std::vector<PolicyVariant> variants;
  for (const SpecPart& part : policy.parts) {
    const PolicyEntry* entry = find_policy(part.name);
    if (entry == nullptr) continue;
    for (const PartVariant& variant : entry->variants) {
      std::string spec = replaced(policy, part, variant);
      const bool known = spec.empty() || spec == policy.text() ||
                         std::any_of(variants.begin(), variants.end(),
                                     [&](const PolicyVariant& each) { return each.spec == spec; });
      if (!known) variants.push_back({part.name, variant.where, std::move(spec)});
    }
  }
  return variants;
}

}  // namespace kvloupe::window
