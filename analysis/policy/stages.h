#pragma once
// The stages a policy is composed of. Each step runs them in this order (see composed_policy.cpp):
// score and merging (observe) → score (prepare, score) → protection → allocation → merging (sets) →
// selection → merging (gifts) → score and merging (retain).

#include <algorithm>
#include <span>
#include <vector>

#include "analysis/policy/policy.h"

namespace kvloupe {

/// Entries kept whatever their score, inside the budget: a prefix by token index and a suffix of
/// the cache. Where they exceed the quota the oldest of the suffix give way, then the latest of the
/// prefix.
struct Protection {
  int sink_tokens = 0;  // entries with token index < sink_tokens
  int recent = 0;       // the last entries of the cache, by a modifier
  int window = 0;       // the last entries of the cache, by the score itself

  /// The most entries this can protect.
  int most() const { return sink_tokens + std::max(recent, window); }
  /// Both together: a prefix and a suffix each as long as the longer one.
  Protection with(const Protection& other) const;
  /// [n]: sink, window or recent for at most `quota` entries, evicted for all others.
  std::vector<Fate> fates(std::span<const std::int32_t> tokens, int quota) const;
};

/// What the entries of each head are worth. One object per layer. Methods that take a head may be
/// called for different heads at the same time; rows index the present cache before eviction.
class Score {
 public:
  virtual ~Score() = default;
  /// Every step, evicting or not, before anything else: update what is accumulated.
  virtual void observe(const StepView& /*view*/, int /*head*/) {}
  /// Once per step that scores, before score(): what the heads of the layer share. `budget`:
  /// entries per head that the layer may hold at this step.
  virtual void prepare(const StepView& /*view*/, int /*budget*/) {}
  /// [n], higher = kept. Called only after observe(), and prepare(), of the same step.
  virtual std::vector<float> score(const StepView& view, int head) = 0;
  /// What this score keeps by its own definition.
  virtual Protection protection() const { return {}; }
  /// Told once, before any step: what is kept whatever the score.
  virtual void set_protection(const Protection& /*protection*/) {}
  /// What a score is divided by to become attention per row: the rows it sums over, of the oldest
  /// entry there can be.
  virtual double rows_summed(const StepView& /*view*/) const { return 1.0; }
  /// Every step, last: forget what was not kept; the rows a merge changed are new next time.
  virtual void retain(const StepView& /*view*/, int /*head*/, const HeadDecision& /*decision*/) {}
  virtual bool needs_values() const { return false; }
};

/// How many entries each head of the layer may keep. `budget`: entries per head that the layer may
/// hold at this step, the mean over its heads.
class Allocation {
 public:
  virtual ~Allocation() = default;
  /// Whether anything must go at this step.
  virtual bool over_budget(const StepView& view, int budget) const = 0;
  /// [Hk], each at most that head's n, at least 1 and at least what is protected for `budget`.
  /// `scores` [Hk][n]; `protection` holds for every head.
  virtual std::vector<int> quotas(const StepView& view,
                                  const std::vector<std::vector<float>>& scores,
                                  const Protection& protection, int budget) const = 0;
};

/// Which unprotected entries fill what protection has left of a head's quota.
class Selection {
 public:
  virtual ~Selection() = default;
  /// Marks `count` entries of `decision.fates` (now `evicted` where unprotected) as kept, and fills
  /// threshold and ties. `decision.scores` [n] holds the scores, `rows_summed` what they are
  /// divided by to become attention per row. Different heads may be asked for at the same time.
  virtual void select(const StepView& view, int head, int count, double rows_summed,
                      HeadDecision& decision) = 0;
  /// Every step, last: forget what was not kept; the rows a merge changed are new next time.
  virtual void retain(const StepView& /*view*/, int /*head*/, const HeadDecision& /*decision*/) {}
  virtual bool needs_values() const { return false; }
};

/// What becomes of entries that do not stay by themselves. Methods may be called for different
/// heads at the same time.
class Merging {
 public:
  virtual ~Merging() = default;
  /// Every step, evicting or not, after the score's.
  virtual void observe(const StepView& /*view*/, int /*head*/) {}
  /// Where n exceeds the head's quota, before the selection: fills `decision.merges` with sets of
  /// unprotected entries (`decision.fates` [n]: evicted) that become one entry each, disjoint, each
  /// of two members or more, and `decision.merge_threshold`. The selection then chooses among what
  /// remains, if that is still more than the quota; a set whose pivot it does not keep is evicted
  /// as a whole.
  virtual void sets(const StepView& /*view*/, int /*head*/, int /*quota*/,
                    HeadDecision& /*decision*/) {}
  /// After the selection: values of evicted entries given to kept ones, each in equal parts to
  /// those that follow it in the cache. What is given has no key.
  virtual std::vector<Merge> gifts(const StepView& /*view*/, int /*head*/,
                                   const HeadDecision& /*decision*/) {
    return {};
  }
  /// Every step, last: forget what was not kept.
  virtual void retain(const StepView& /*view*/, int /*head*/, const HeadDecision& /*decision*/) {}
};

}  // namespace kvloupe
