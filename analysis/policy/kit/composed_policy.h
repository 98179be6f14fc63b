#pragma once

#include <functional>
#include <memory>
#include <string>

#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/schedule.h"
#include "analysis/policy/kit/sees_rewrites.h"
#include "analysis/policy/kit/stages.h"

namespace kvloupe {

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
};

/// score × protection × allocation × selection × merging, as one state machine of a layer. Its
/// schedule says at which steps it evicts; scores see every step.
class ComposedPolicy : public LayerPolicy, public SeesRewrites {
 public:
  /// `name` is the score's, for messages.
  ComposedPolicy(std::string name, const LayerContext& context, PolicyOptions options,
                 PolicyStages stages);

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

}  // namespace kvloupe
