#pragma once
// The kinds of parts of a policy, and how each is built: one type for each kind.

#include <functional>
#include <memory>
#include <type_traits>
#include <variant>

#include "analysis/math/quantisation.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// Scale of a score's numbers, for modifiers that compute with them or compare heads by them.
enum class ScoreScale {
  attention,   // shares of attention: never negative, alike in all heads
  common,      // no attention, but never negative and alike in all heads
  per_head,    // every head has a scale of its own
  signed_own,  // the same, and may be negative
};

/// `Made` from the part and its context, from one of them, or from neither: whatever it takes.
template <typename Made>
std::unique_ptr<Made> made_of(const SpecPart& part, const LayerContext& context) {
  if constexpr (std::is_constructible_v<Made, const SpecPart&, const LayerContext&>) {
    return make_copyable<Made>(part, context);
  } else if constexpr (std::is_constructible_v<Made, const SpecPart&>) {
    return make_copyable<Made>(part);
  } else if constexpr (std::is_constructible_v<Made, const LayerContext&>) {
    return make_copyable<Made>(context);
  } else {
    return make_copyable<Made>();
  }
}

/// A score, to be combined with any modifier.
struct ScoreBuilder {
  std::function<std::unique_ptr<Score>(const SpecPart&, const LayerContext&)> make;
  ScoreScale scale = ScoreScale::attention;  // whatever its parameters
  /// Whether all heads of a layer keep the same tokens; empty: each keeps its own.
  std::function<bool(const SpecPart&)> keeps_one_set = nullptr;
};

/// A policy that decides by itself and takes no modifier.
struct WholePolicyBuilder {
  std::function<std::unique_ptr<LayerPolicy>(const SpecPart&, const LayerContext&)> make;
};

/// A modifier that protects entries, in the context's layer and at its budget.
struct ProtectionBuilder {
  std::function<Protection(const SpecPart&, const LayerContext&)> make;
};

/// How the layers share the budget: entries per head the layer may hold once so many tokens were
/// seen that later queries see.
struct LayerBudgetBuilder {
  std::function<int(const SpecPart&, const LayerContext&, int seen)> budget;
};

/// How the heads of a layer share its budget.
struct AllocationBuilder {
  std::function<std::unique_ptr<Allocation>(const SpecPart&, const LayerContext&)> make;
};

/// A score made of another score.
struct ScoreWrapper {
  std::function<std::unique_ptr<Score>(const SpecPart&, const LayerContext&,
                                       std::unique_ptr<Score> base)>
      make;
};

/// A score made of another score of all heads of the layer, which then keep the same tokens.
struct ScoreGrouping {
  std::function<std::unique_ptr<Score>(const SpecPart&, const LayerContext&,
                                       std::unique_ptr<Score> base)>
      make;
};

/// Which entries fill the places that protection has left.
struct SelectionBuilder {
  std::function<std::unique_ptr<Selection>(const SpecPart&, const LayerContext&)> make;
};

/// Whole pages: a score made of another one, and which pages fill the places.
struct PagingBuilder {
  std::function<std::unique_ptr<Score>(const SpecPart&, std::unique_ptr<Score> base)> score;
  std::function<std::unique_ptr<Selection>(const SpecPart&)> selection;
};

/// A modifier that merges entries that do not stay by themselves.
struct MergingBuilder {
  std::function<std::unique_ptr<Merging>(const SpecPart&, const LayerContext&)> make;
};

/// Entries that leave although nothing else has to.
struct RemovalBuilder {
  std::function<TokenRule(const SpecPart&, const LayerContext&)> make;
};

/// When the policy acts, at the context's budget.
struct ScheduleBuilder {
  std::function<Schedule(const SpecPart&, const LayerContext&)> make;
};

/// How the caches hold their entries.
struct StorageBuilder {
  std::function<Quantisation(const SpecPart&)> make;
};

using PartBuilder =
    std::variant<ScoreBuilder, WholePolicyBuilder, ProtectionBuilder, LayerBudgetBuilder,
                 AllocationBuilder, ScoreWrapper, ScoreGrouping, SelectionBuilder, PagingBuilder,
                 MergingBuilder, RemovalBuilder, ScheduleBuilder, StorageBuilder>;

}  // namespace kvloupe
