#pragma once

#include <limits>
#include <span>

#include "analysis/policy/stages.h"

namespace kvloupe {

/// The lowest value kept (NaN where none was), and how many candidates have it if more than one.
struct Threshold {
  float value = std::numeric_limits<float>::quiet_NaN();
  int ties = 0;
};

/// Marks as `fate` the `count` entries of the highest `values` [n] among those now `evicted` in
/// `fates` [n]. Of equals the later is kept.
Threshold mark_highest(std::span<const float> values, int count, Fate fate,
                       std::vector<Fate>& fates);

/// The highest scores.
class TopSelection : public Selection {
 public:
  void select(const StepView& view, int head, int count, double rows_summed,
              HeadDecision& decision) override;
};

}  // namespace kvloupe
