#include "app/window/state/policy_choice.h"

#include <algorithm>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe::window {

namespace {
constexpr std::size_t kMostUndoEntries = 200;
}

void PolicyHistory::follow(const WorkspaceState& state, bool held) {
  if (!std::exchange(started_, true)) now_ = state;
  const ReplayInputs& entry = state;
  if (held || entry == now_) return;
  past_.push_back(std::move(now_));
  if (past_.size() > kMostUndoEntries) past_.erase(past_.begin());
  future_.clear();
  now_ = entry;
}

bool PolicyHistory::step(WorkspaceState& state, std::vector<ReplayInputs>& from,
                         std::vector<ReplayInputs>& to) {
  if (from.empty()) return false;
  to.push_back(state);
  now_ = std::move(from.back());
  from.pop_back();
  static_cast<ReplayInputs&>(state) = now_;
  return true;
}

void PolicyHistory::clear() {
  started_ = false;
  past_.clear();
  future_.clear();
}

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
