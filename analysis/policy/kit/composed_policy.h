#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/stages.h"
#include "analysis/policy/kit/token_rule.h"

namespace kvloupe {

/// A policy that remembers entries from step to step, and must learn which of them change without
/// being merged.
class SeesRewrites {
 public:
  virtual ~SeesRewrites() = default;
  /// Entries [first, end) of a head's cache, as it is after a step, are about to get other keys and
  /// values: stored facts about them are no longer true. For different heads at the same time.
  virtual void rewrite(const CacheView& cache, int head, int first, int end) = 0;
};

/// The parts of a policy.
struct PolicyStages {
  std::unique_ptr<Score> score;
  Protection protection;  // of the modifiers; the score adds its own
  /// Entries per head that the layer may hold after `seen` tokens, without those that no later
  /// query sees; empty: the budget.
  std::function<int(int seen)> layer_budget;
  std::unique_ptr<Allocation> allocation;
  std::unique_ptr<Selection> selection;
  std::unique_ptr<Merging> merging;      // or null
  std::vector<TokenRule> removals = {};  // entries that leave whatever the others say
  Schedule schedule = {};

  PolicyStages() = default;
  PolicyStages(PolicyStages&&) = default;
  PolicyStages& operator=(PolicyStages&&) = default;
  PolicyStages(const PolicyStages& other);  // with the state; throws CannotCopy
  /// Lets parts that need it know the score.
  void link() const;
};

/// score × protection × allocation × selection × merging, as one state machine of a layer. Its
/// schedule says at which steps it evicts; scores see every step.
class ComposedPolicy : public LayerPolicy, public SeesRewrites {
 public:
  /// `name` is the score's, for messages.
  ComposedPolicy(std::string name, const LayerContext& context, PolicyOptions options,
                 PolicyStages stages);
  ComposedPolicy(const ComposedPolicy&) = default;

  void forget_first(const std::vector<CacheView>& caches, std::span<const int> counts) override;
  std::vector<HeadDecision> step(const StepView& view) override;
  void rewrite(const CacheView& cache, int head, int first, int end) override;
  bool needs_values() const override {
    return stages_.score->needs_values() || stages_.selection->needs_values();
  }
  bool merges() const override { return stages_.merging != nullptr; }

 private:
  /// Decides which entries stay and which are merged: fills everything but the scores. `fates`
  /// hold who is protected and who was dropped.
  void decide(const StepView& view, int head, int quota, HeadDecision& decision) const;
  /// Whether entries must leave at this step.
  bool evicts(const StepView& view, int budget) const;
  /// The quotas of the heads. The scores of dropped entries do not influence them.
  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>& scores,
                          const std::vector<std::vector<std::int32_t>>& dropped, int budget) const;
  /// Throws WorkError if the last of the block's own rows has a number that is not finite.
  void check_rows(const StepView& view, const MatrixView& rows, const std::string& what) const;
  void check_scores(const StepView& view, int head, const std::vector<float>& scores) const;

  std::string name_;
  int layer_;
  HeadLoop for_heads_;
  PolicyOptions options_;
  int budget_;
  int prompt_length_;
  PolicyStages stages_;
};

/// Rows of a head's cache that the rules name, ascending. A cache keeps at least one entry: where
/// all are named, the last stays.
std::vector<std::int32_t> removed_rows(const std::vector<TokenRule>& rules, int head,
                                       std::span<const std::int32_t> tokens);

/// A policy that keeps everything, less the entries that the rules name. The inner policy must hold
/// nothing from step to step: it does not learn which entries left.
class PolicyWithRemovals : public LayerPolicy {
 public:
  PolicyWithRemovals(std::unique_ptr<LayerPolicy> inner, std::vector<TokenRule> rules)
      : inner_(std::move(inner)), rules_(std::move(rules)) {}
  PolicyWithRemovals(const PolicyWithRemovals& other)
      : LayerPolicy(other), inner_(other.inner_->copy()), rules_(other.rules_) {}

  std::vector<HeadDecision> step(const StepView& view) override;
  bool needs_values() const override { return inner_->needs_values(); }

 private:
  std::unique_ptr<LayerPolicy> inner_;
  std::vector<TokenRule> rules_;
};

}  // namespace kvloupe
