#pragma once

#include "analysis/policy/stages.h"

namespace kvloupe {

/// N entries per head.
class UniformAllocation : public Allocation {
 public:
  explicit UniformAllocation(int budget) : budget_(budget) {}
  bool over_budget(const StepView& view) const override;
  std::vector<int> quotas(const StepView& view, const std::vector<std::vector<float>>& scores,
                          const Protection& protection) const override;

 private:
  int budget_;
};

}  // namespace kvloupe
