#pragma once

#include "analysis/policy/kit/policy.h"

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

}  // namespace kvloupe
