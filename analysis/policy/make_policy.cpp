#include <algorithm>
#include <stdexcept>
#include <utility>

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

/// The builder of that kind of the spec's one modifier that has it, else null.
template <typename Builder>
std::pair<const SpecPart*, const Builder*> builder_of(const PolicySpec& spec,
                                                      Builder PolicyEntry::*builder) {
  for (const SpecPart& part : spec.parts) {
    const Builder& found = entry_of(part).*builder;
    if (found) return {&part, &found};
  }
  return {nullptr, nullptr};
}

PolicyStages make_stages(const PolicySpec& spec, const LayerContext& context) {
  PolicyStages stages;
  stages.score = entry_of(spec.score()).make_score(spec.score(), context);
  if (const auto [part, wrap] = builder_of(spec, &PolicyEntry::wrap_score); wrap != nullptr) {
    stages.score = (*wrap)(*part, context, std::move(stages.score));
  }
  stages.protection = modifiers_protection(spec, context.budget);
  if (const auto [part, budget] = builder_of(spec, &PolicyEntry::layer_budget); budget != nullptr) {
    stages.layer_budget = [part = *part, budget = *budget, context](int seen) {
      return budget(part, context, seen);
    };
  }
  if (const auto [part, make] = builder_of(spec, &PolicyEntry::make_allocation); make != nullptr) {
    stages.allocation = (*make)(*part);
  } else {
    stages.allocation = std::make_unique<UniformAllocation>();
  }
  if (const auto [part, make] = builder_of(spec, &PolicyEntry::make_selection); make != nullptr) {
    stages.selection = (*make)(*part, context);
  } else {
    stages.selection = std::make_unique<TopSelection>();
  }
  if (const auto [part, make] = builder_of(spec, &PolicyEntry::make_merging); make != nullptr) {
    stages.merging = (*make)(*part, context);
  }
  return stages;
}
}  // namespace

void check_combination(const PolicySpec& spec) {
  const PolicyEntry& score = entry_of(spec.score());
  if (score.make_policy && spec.parts.size() > 1) {
    throw UsageError("policy: " + score.name + " makes all decisions itself; remove the modifiers");
  }
  const SpecPart* merging = nullptr;
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    const std::string reason = entry.refusal ? entry.refusal(spec) : "";
    if (!reason.empty()) throw UsageError("policy: " + part.name + ": " + reason);
    if (!entry.make_merging) continue;
    if (merging != nullptr) {
      throw UsageError("policy: " + merging->name + " and " + part.name +
                       " both merge; remove one of them");
    }
    merging = &part;
  }
}

std::unique_ptr<LayerPolicy> make_layer_policy(const PolicySpec& spec, const LayerContext& context,
                                               PolicyOptions options) {
  if (spec.parts.empty()) throw UsageError("policy: the spec is empty");
  if (context.budget < 1) throw UsageError("budget: must be at least 1");
  check_combination(spec);
  const PolicyEntry& entry = entry_of(spec.score());
  if (entry.make_policy) return entry.make_policy(spec.score(), context);
  if (!entry.make_score) throw UsageError("policy: '" + entry.name + "' is not a score");
  return std::make_unique<ComposedPolicy>(entry.name, context, options, make_stages(spec, context));
}

namespace {
/// What a sliding window means for a policy that decides by a budget.
void note_window(const PolicySpec& spec, const Protection& protection, int window, int budget,
                 std::vector<std::string>& notes) {
  notes.push_back("the model sees the last " + std::to_string(window) +
                  " tokens: entries that no later query sees leave the cache before the policy "
                  "decides; this is not an eviction");
  if (budget >= window - 1) {
    notes.push_back("at most " + std::to_string(window - 1) +
                    " entries are then left, which fit the budget of " + std::to_string(budget) +
                    ": nothing is evicted");
  }
  if (protection.sink_tokens > 0) {
    notes.push_back(spec.text() + " protects the first " + std::to_string(protection.sink_tokens) +
                    " tokens only while they are in the window");
  }
}
}  // namespace

std::vector<std::string> policy_notes(const PolicySpec& spec, const ModelInfo& model, int budget,
                                      int tokens) {
  std::vector<std::string> notes;
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (entry.doubts) {
      for (std::string& note : entry.doubts(spec)) notes.push_back(std::move(note));
    }
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
                    (protection.sink_tokens > budget
                         ? ": only the first of them are kept"
                         : ": the oldest of the recent entries are not kept"));
  }
  if (model.sliding_window > 0 && tokens > model.sliding_window) {
    note_window(spec, protection, model.sliding_window, budget, notes);
  }
  return notes;
}

}  // namespace kvloupe
