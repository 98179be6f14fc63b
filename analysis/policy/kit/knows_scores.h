#pragma once

#include <memory>

#include "analysis/policy/kit/known_scores.h"

namespace kvloupe {

/// Interface of a score that is known for all layers before the first step.
class KnowsScores {
 public:
  virtual ~KnowsScores() = default;
  virtual std::shared_ptr<const KnownScores> known() = 0;
};

/// Interface of an allocation that shares places over all layers by such a score.
class NeedsKnownScores {
 public:
  virtual ~NeedsKnownScores() = default;
  /// Once, before any step; borrowed, must outlive the allocation's last step.
  virtual void by(KnowsScores& score) = 0;
};

}  // namespace kvloupe
