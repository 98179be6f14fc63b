#pragma once

#include <limits>
#include <span>

#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// The lowest value kept (NaN if none was), and the number of candidates with this value, if more
/// than one.
struct Threshold {
  float value = std::numeric_limits<float>::quiet_NaN();
  int ties = 0;
};

/// Among the entries that are `evicted` in `fates` [n], marks the `count` with the highest `values`
/// [n] as `fate`. Among equal values the later entry is marked.
Threshold mark_highest(std::span<const float> values, int count, Fate fate,
                       std::vector<Fate>& fates);

/// The highest scores.
class TopSelection : public Selection {
 public:
  void select(const StepView& view, int head, int count, double rows_summed,
              HeadDecision& decision) override;
};

}  // namespace kvloupe
