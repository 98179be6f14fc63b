#pragma once

#include "analysis/policy/stages.h"

namespace kvloupe {

/// The highest scores; of equal ones the later token.
class TopSelection : public Selection {
 public:
  void select(const StepView& view, int head, int count, HeadDecision& decision) const override;
};

}  // namespace kvloupe
