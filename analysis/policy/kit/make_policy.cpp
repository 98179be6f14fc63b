#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/composed_policy.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/stages.h"
#include "analysis/policy/kit/top_selection.h"
#include "analysis/trace/layer_kinds_text.h"

namespace kvloupe {

namespace {

/// The same for every head.
class UniformAllocation : public Allocation {
 public:
  bool over_budget(const StepView& view, int budget) const override {
    return std::any_of(view.caches.begin(), view.caches.end(), [&](const CacheView& cache) {
      return cache.tokens.size() > static_cast<std::size_t>(budget);
    });
  }
  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>&,
                          const Protection&, int budget) const override {
    std::vector<int> result;
    for (const CacheView& cache : view.caches) {
      result.push_back(std::min(budget, static_cast<int>(cache.tokens.size())));
    }
    return result;
  }
};

Protection modifiers_protection(const PolicySpec& spec, const LayerContext& context) {
  Protection protection;
  for (const SpecPart& part : spec.parts) {
    const auto* builder = entry_of(part).as<ProtectionBuilder>();
    if (builder != nullptr) protection = protection.with(builder->make(part, context));
  }
  return protection;
}

/// Builds a part into the stages. The score is the first part, so that it is there to be wrapped.
struct AddToStages {
  const SpecPart& part;
  const LayerContext& context;
  PolicyStages& stages;

  void operator()(const ScoreBuilder& score) const {
    stages.score = score.make(part, context);
    stages.merging = stages.score->merging();
  }
  void operator()(const WholePolicyBuilder&) const {
    throw std::logic_error("policy: " + part.name + " decides by itself and has no stages");
  }
  void operator()(const ProtectionBuilder& protection) const {
    stages.protection = stages.protection.with(protection.make(part, context));
  }
  void operator()(const LayerBudgetBuilder& layer) const {
    stages.layer_budget = [part = part, layer, context = context](int seen) {
      return layer.budget(part, context, seen);
    };
  }
  void operator()(const AllocationBuilder& allocation) const {
    stages.allocation = allocation.make(part, context);
  }
  void operator()(const ScoreWrapper& wrapper) const {
    stages.score = wrapper.make(part, context, std::move(stages.score));
  }
  void operator()(const ScoreGrouping& grouping) const {
    stages.score = grouping.make(part, context, std::move(stages.score));
  }
  void operator()(const SelectionBuilder& selection) const {
    stages.selection = selection.make(part, context);
  }
  void operator()(const PagingBuilder& paging) const {
    stages.score = paging.score(part, std::move(stages.score));
    stages.selection = paging.selection(part);
  }
  void operator()(const MergingBuilder& merging) const {
    stages.merging = merging.make(part, context);
  }
  void operator()(const RemovalBuilder& removal) const {
    stages.removals.push_back(removal.make(part, context));
  }
  void operator()(const StorageBuilder&) const {}  // the caches' own work: EvictingLayer
  void operator()(const ScheduleBuilder& schedule) const {
    stages.schedule = stages.schedule.with(schedule.make(part, context));
  }
};

PolicyStages make_stages(const PolicySpec& spec, const LayerContext& context) {
  PolicyStages stages;
  stages.allocation = make_copyable<UniformAllocation>();
  stages.selection = make_copyable<TopSelection>();
  for (const SpecPart& part : spec.parts) {
    std::visit(AddToStages{part, context, stages}, entry_of(part).builder);
  }
  stages.link();
  return stages;
}
}  // namespace

void check_combination(const PolicySpec& spec) {
  for (std::size_t i = 1; i < spec.parts.size(); ++i) {
    const std::string reason = whole_policy_refusal(entry_of(spec.parts[i]), spec);
    if (!reason.empty()) throw UsageError("policy: " + reason);
  }
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    const std::string reason = entry.refusal ? entry.refusal(part, spec) : "";
    if (!reason.empty()) throw UsageError("policy: " + part.name + ": " + reason);
    const SpecPart* other = next_alike(part, spec);
    const std::string both = entry.done_once();
    if (other == nullptr || both.empty()) continue;
    throw UsageError("policy: " + part.name + " and " + other->name + " both " + both +
                     "; remove one of them");
  }
}

std::unique_ptr<LayerPolicy> make_layer_policy(const PolicySpec& spec, const LayerContext& context,
                                               PolicyOptions options) {
  if (spec.parts.empty()) throw UsageError("policy: the spec is empty");
  if (context.budget < 1) throw UsageError("budget: must be at least 1");
  check_combination(spec);
  check_run(spec, {context.prompt_length, -1, context.budget});
  if (context.structural == nullptr && has_trait(spec, &PolicyTraits::reads_structure)) {
    throw UsageError("policy: " + spec.text() +
                     " reads the texts of the tokens, which are not known here; take a trace that "
                     "has them, or leave boundaries out");
  }
  const PolicyEntry& entry = entry_of(spec.score());
  if (const auto* whole = entry.as<WholePolicyBuilder>()) {
    std::unique_ptr<LayerPolicy> policy = whole->make(spec.score(), context);
    std::vector<TokenRule> removals;
    for (const SpecPart& part : spec.parts) {
      const auto* removal = entry_of(part).as<RemovalBuilder>();
      if (removal != nullptr) removals.push_back(removal->make(part, context));
    }
    if (removals.empty()) return policy;
    return make_copyable<PolicyWithRemovals>(std::move(policy), std::move(removals));
  }
  if (entry.as<ScoreBuilder>() == nullptr) {
    throw UsageError("policy: '" + entry.name + "' is not a score");
  }
  return make_copyable<ComposedPolicy>(entry.name, context, options, make_stages(spec, context));
}

void check_limits(const PolicySpec& spec, const ModelInfo& model, int budget, int tokens) {
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (entry.limits) entry.limits(part, model, budget, tokens);
  }
}

void check_run(const PolicySpec& spec, const RunShape& run) {
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (entry.traits.reads_prompt_end && run.prompt_length < 1) {
      throw UsageError("policy: " + part.name +
                       " needs to know where the prompt ends; give prompt_length");
    }
    const std::string reason = entry.run_refusal ? entry.run_refusal(part, run) : "";
    if (!reason.empty()) throw UsageError("policy: " + part.name + ": " + reason);
  }
}

namespace {
/// Notes about a sliding window or chunks for a policy that decides by a budget.
void note_window(const PolicySpec& spec, const Protection& protection, const Reach& reach,
                 int budget, std::vector<std::string>& notes) {
  const int window = reach.span();
  notes.push_back(std::string(reach.name()) + " of " + std::to_string(window) + " tokens" +
                  std::string(kLeavesTheWindow));
  if (budget >= window - 1) {
    notes.push_back("at most " + std::to_string(window - 1) +
                    " entries are then left, which fit the budget of " + std::to_string(budget) +
                    ": nothing is evicted");
  }
  if (protection.sink_tokens > 0) {
    notes.push_back(spec.text() + " protects the first " + std::to_string(protection.sink_tokens) +
                    " tokens only while they are in the " + reach.name());
  }
}

/// A note about a protection of more entries than the budget; empty if all of them are kept.
std::string protection_note(const PolicySpec& spec, const Protection& protection, int budget) {
  std::string where;
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (entry.kind() != PartKind::allocation) continue;
    if (entry.traits.budget_is_outcome) return "";
    if (entry.traits.fixes_places) where = "in heads that hold fewer, ";
    if (where.empty() && entry.as<LayerBudgetBuilder>() != nullptr) {
      where = "in layers that hold fewer, ";
    }
  }
  return spec.text() + " protects up to " + std::to_string(protection.most()) +
         " entries, more than the budget of " + std::to_string(budget) + ": " + where +
         (protection.sink_tokens > budget ? "only the first of them are kept"
                                          : "the oldest of the recent entries are not kept");
}
}  // namespace

std::vector<std::string> policy_notes(const PolicySpec& spec, const ModelInfo& model, int budget,
                                      int tokens) {
  std::vector<std::string> notes;
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = entry_of(part);
    if (entry.doubts) {
      for (std::string& note : entry.doubts(part, spec)) notes.push_back(std::move(note));
    }
    if (!entry.notes) continue;
    for (std::string& note : entry.notes(part, model, budget)) notes.push_back(std::move(note));
  }
  const auto* score = entry_of(spec.score()).as<ScoreBuilder>();
  if (score == nullptr) return notes;
  LayerContext context{.model = model, .budget = budget};
  const Protection protection =
      modifiers_protection(spec, context).with(score->make(spec.score(), context)->protection());
  if (protection.most() > budget) {
    const std::string note = protection_note(spec, protection, budget);
    if (!note.empty()) notes.push_back(note);
  }
  if (const Reach reach = model.reach(); !reach.all() && tokens > reach.span()) {
    note_window(spec, protection, reach, budget, notes);
  }
  return notes;
}

}  // namespace kvloupe
