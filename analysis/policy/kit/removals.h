#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/token_rule.h"

namespace kvloupe {

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

  std::vector<HeadDecision> step(const StepView& view) override;
  bool needs_values() const override { return inner_->needs_values(); }

 private:
  std::unique_ptr<LayerPolicy> inner_;
  std::vector<TokenRule> rules_;
};

}  // namespace kvloupe
