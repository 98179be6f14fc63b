#pragma once

#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// The same for every head.
class UniformAllocation : public Allocation {
 public:
  bool over_budget(const StepView& view, int budget) const override;
  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>& scores,
                          const Protection& protection, int budget) const override;
};

}  // namespace kvloupe
