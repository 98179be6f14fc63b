#include <algorithm>
#include <stdexcept>

#include "analysis/error.h"
#include "analysis/policy/composed_policy.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/policy/top_selection.h"
#include "analysis/policy/uniform_allocation.h"

namespace kvloupe {

namespace {
const PolicyEntry& entry_of(const SpecPart& part) {
  const PolicyEntry* entry = find_policy(part.name);
  if (entry == nullptr) throw UsageError("policy: '" + part.name + "' is not in the catalogue");
  return *entry;
}

Protection modifiers_protection(const PolicySpec& spec, int budget) {
  Protection protection;
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (entry.protect) protection = protection.with(entry.protect(part, budget));
  }
  return protection;
}

/// Throws UsageError where a part makes no sense beside the others.
void check_combination(const PolicySpec& spec) {
  const SpecPart* merging = nullptr;
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    const std::string reason = entry.refusal ? entry.refusal(spec) : "";
    if (!reason.empty()) throw UsageError("policy: " + reason);
    if (!entry.make_merging) continue;
    if (merging != nullptr) {
      throw UsageError("policy: " + merging->name + " and " + part.name +
                       " both merge; leave one out");
    }
    merging = &part;
  }
}

std::unique_ptr<Merging> make_merging(const PolicySpec& spec, const LayerContext& context) {
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (entry.make_merging) return entry.make_merging(part, context);
  }
  return nullptr;
}
}  // namespace

std::unique_ptr<LayerPolicy> make_layer_policy(const PolicySpec& spec, const LayerContext& context,
                                               PolicyOptions options) {
  if (spec.parts.empty()) throw UsageError("policy: nothing is written");
  if (context.budget < 1) throw UsageError("budget: must be at least 1");
  check_combination(spec);
  const PolicyEntry& entry = entry_of(spec.score());
  if (entry.make_policy) {
    if (spec.parts.size() > 1) {
      throw UsageError("policy: " + entry.name + " decides by itself, so it takes no modifier");
    }
    return entry.make_policy(spec.score(), context);
  }
  if (!entry.make_score) throw UsageError("policy: '" + entry.name + "' is no score");
  return std::make_unique<ComposedPolicy>(
      entry.name, context, options, entry.make_score(spec.score(), context),
      modifiers_protection(spec, context.budget),
      std::make_unique<UniformAllocation>(context.budget), std::make_unique<TopSelection>(),
      make_merging(spec, context));
}

std::vector<std::string> policy_notes(const PolicySpec& spec, const ModelInfo& model, int budget) {
  std::vector<std::string> notes;
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (!entry.notes) continue;
    for (std::string& note : entry.notes(part, model, budget)) notes.push_back(std::move(note));
  }
  const PolicyEntry& score = entry_of(spec.score());
  if (!score.make_score) return notes;
  LayerContext context;
  context.model = model;
  context.budget = budget;
  const Protection protection = modifiers_protection(spec, budget)
                                    .with(score.make_score(spec.score(), context)->protection());
  if (protection.most() > budget) {
    notes.push_back(spec.text() + " protects up to " + std::to_string(protection.most()) +
                    " entries, more than the budget of " + std::to_string(budget) +
                    (protection.sink_tokens > budget ? ": only the first of them are kept"
                                                     : ": the oldest of the recent give way"));
  }
  return notes;
}

}  // namespace kvloupe
