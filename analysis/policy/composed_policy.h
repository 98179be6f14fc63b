#pragma once

#include <memory>

#include "analysis/policy/policy.h"
#include "analysis/policy/stages.h"

namespace kvloupe {

/// score × protection × allocation × selection × merging, as one state machine of a layer.
class ComposedPolicy : public LayerPolicy {
 public:
  /// `name` is the score's, for messages. `protection` is the modifiers'; the score adds its own.
  /// `merging` may be null.
  ComposedPolicy(std::string name, const LayerContext& context, PolicyOptions options,
                 std::unique_ptr<Score> score, const Protection& protection,
                 std::unique_ptr<Allocation> allocation, std::unique_ptr<Selection> selection,
                 std::unique_ptr<Merging> merging);

  std::vector<HeadDecision> step(const StepView& view) override;
  bool needs_values() const override { return score_->needs_values(); }
  bool merges() const override { return merging_ != nullptr; }

 private:
  /// Which entries stay, and which are merged: fills everything but the scores.
  void decide(const StepView& view, int head, int quota, HeadDecision& decision) const;
  void check_scores(const StepView& view, int head, const std::vector<float>& scores) const;

  std::string name_;
  int layer_;
  HeadLoop for_heads_;
  PolicyOptions options_;
  std::unique_ptr<Score> score_;
  Protection protection_;
  std::unique_ptr<Allocation> allocation_;
  std::unique_ptr<Selection> selection_;
  std::unique_ptr<Merging> merging_;  // or null
};

}  // namespace kvloupe
