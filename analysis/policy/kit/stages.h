#pragma once
// The stages a policy is composed of. Each step runs them in this order (see composed_policy.cpp):
// score and merging (observe) → score (prepare, score) → protection → allocation → merging (sets) →
// selection → merging (gifts) → score and merging (retain).

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "analysis/policy/kit/policy.h"
#include "analysis/policy/kit/token_rule.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Entries that are kept whatever their score: those that a person names, a prefix by token index,
/// structural tokens, and a suffix of the cache. All but `extra` are inside the budget. If they
/// exceed the quota, the oldest of the suffix lose their protection first, then structural tokens,
/// then the latest of the prefix, then the latest that are named.
struct Protection {
  int sink_tokens = 0;  // entries with token index < sink_tokens
  int recent = 0;       // the last entries of the cache, by a modifier
  int window = 0;       // the last entries of the cache, by the score itself
  std::vector<TokenRule> kept = {};
  std::vector<TokenRule> extra = {};  // beside the budget
  /// LayerContext::structural: token 0 and the latest of these tokens have so many places.
  const std::vector<char>* structural = nullptr;
  int structural_places = 0;

  /// The most entries this can protect, without those that are named.
  int most() const { return sink_tokens + structural_places + std::max(recent, window); }
  /// Both together: the longer prefix, the longer suffix, all that is named.
  Protection with(const Protection& other) const;
  /// [n]: held for what is named, sink, window or recent for others, of all these at most `quota`
  /// beside the extra ones; evicted for all others. `head`: whose entries they are.
  std::vector<Fate> fates(int head, std::span<const std::int32_t> tokens, int quota) const;
  /// How many of these entries are beside the budget.
  int count_extra(int head, std::span<const std::int32_t> tokens) const;
};

/// Makes synthetic entries: merges entries, gives away the values of entries that leave, or refits
/// what stays. Methods may be called for
/// different heads at the same time.
class Merging : public PolicyPart<Merging> {
 public:
  /// Called at every step, evicting or not, after the score's observe().
  virtual void observe(const StepView& /*view*/, int /*head*/) {}
  /// Called before the selection if n exceeds the head's quota: fills `decision.merges` with sets
  /// of unprotected entries (`decision.fates` [n]: evicted) that become one entry each, disjoint,
  /// with at least two members, and `decision.merge_threshold`. If more entries than the quota
  /// remain, the selection chooses among them; a set whose pivot is not chosen is evicted as a
  /// whole.
  virtual void sets(const StepView& /*view*/, int /*head*/, int /*quota*/,
                    HeadDecision& /*decision*/) {}
  /// Called after the selection, which `decision` holds: values of evicted entries that are given
  /// to kept ones, each in equal parts to the entries that follow it in the cache, or kept entries
  /// with a value of their own. These merges have no key.
  virtual std::vector<Merge> gifts(const StepView& /*view*/, int /*head*/,
                                   const HeadDecision& /*decision*/) {
    return {};
  }
  /// Called last at every step: forget entries that were not kept.
  virtual void retain(const StepView& /*view*/, int /*head*/, const HeadDecision& /*decision*/) {}
};

/// The score of the entries of each head. One object per layer. Methods that take a head may be
/// called for different heads at the same time; rows index the cache before eviction.
class Score : public PolicyPart<Score> {
 public:
  /// Called at every step, evicting or not, before anything else: updates accumulated values.
  virtual void observe(const StepView& /*view*/, int /*head*/) {}
  /// Called once per step that scores, before score(): computes the data that the heads of the
  /// layer share. `budget`: entries per head that the layer may hold at this step.
  virtual void prepare(const StepView& /*view*/, int /*budget*/) {}
  /// [n], higher = kept. Called only after observe(), and prepare(), of the same step.
  virtual std::vector<float> score(const StepView& view, int head) = 0;
  /// The entries that this score keeps by its own definition. Their numbers in score() are those of
  /// its formula; if the formula has none for them, the largest of the head's other scores, because
  /// modifiers such as chunks or caote also read these.
  virtual Protection protection() const { return {}; }
  /// Called once, before any step: the entries that are kept whatever their score.
  virtual void set_protection(const Protection& /*protection*/) {}
  /// The number by which a score is divided to become attention per row: the rows that it sums
  /// over, for the oldest possible entry.
  virtual double rows_summed(const StepView& /*view*/) const { return 1.0; }
  /// Whether a score that is too small for float32 is given as score_values.h says.
  virtual bool keeps_small_scores() const { return false; }
  /// Called once, before any step or after copying: the merges that the policy of this score makes
  /// beside choosing entries. It may share the score's state and has none of its own; its methods
  /// follow the score's. Null: nothing.
  virtual std::unique_ptr<Merging> merging() { return nullptr; }
  /// Called last at every step: forget entries that were not kept, and treat rows that a merge
  /// changed as new.
  virtual void retain(const StepView& /*view*/, int /*head*/, const HeadDecision& /*decision*/) {}
  virtual bool needs_values() const { return false; }
};

/// A score made of another one, which goes on doing what this one does not.
class ScoreOver : public Score {
 public:
  explicit ScoreOver(std::unique_ptr<Score> base) : base_(std::move(base)) {}
  ScoreOver(const ScoreOver& other) : Score(other), base_(other.base_->copy()) {}
  void observe(const StepView& view, int head) override { base_->observe(view, head); }
  void prepare(const StepView& view, int budget) override { base_->prepare(view, budget); }
  void set_protection(const Protection& protection) override { base_->set_protection(protection); }
  Protection protection() const override { return base_->protection(); }
  bool keeps_small_scores() const override { return base_->keeps_small_scores(); }
  void retain(const StepView& view, int head, const HeadDecision& decision) override {
    base_->retain(view, head, decision);
  }
  std::unique_ptr<Merging> merging() override { return base_->merging(); }
  bool needs_values() const override { return base_->needs_values(); }

 protected:
  std::unique_ptr<Score> base_;
};

/// How many entries each head of the layer may keep. `budget`: entries per head that the layer may
/// hold at this step, the mean over its heads.
class Allocation : public PolicyPart<Allocation> {
 public:
  /// Whether the budget limits the number of entries in the heads.
  virtual bool bounded() const { return true; }
  /// How many of a head's `quota` entries may be protected, if heads hold `budget` on average.
  virtual int protectable(int quota, int /*budget*/) const { return quota; }
  /// Whether entries must leave at this step.
  virtual bool over_budget(const StepView& view, int budget) const = 0;
  /// [Hk], each at most that head's n, at least 1 and at least the number of protected entries for
  /// `budget`. `scores` [Hk][n]; `protection` holds for every head.
  virtual std::vector<int> quotas(const StepView& view,
                                  const std::vector<std::vector<float>>& scores,
                                  const Protection& protection, int budget) const = 0;
};

/// Chooses the unprotected entries that fill the rest of a head's quota.
class Selection : public PolicyPart<Selection> {
 public:
  /// Marks `count` entries of `decision.fates` (now `evicted` where unprotected) as kept, and fills
  /// threshold and ties. `decision.scores` [n] holds the scores, `rows_summed` the divisor that
  /// turns them into attention per row. Different heads may be asked for at the same time.
  virtual void select(const StepView& view, int head, int count, double rows_summed,
                      HeadDecision& decision) = 0;
  /// Called last at every step: forget entries that were not kept, and treat rows that a merge
  /// changed as new.
  virtual void retain(const StepView& /*view*/, int /*head*/, const HeadDecision& /*decision*/) {}
  virtual bool needs_values() const { return false; }
};

/// When a policy acts: at which steps entries may leave because the budget is exceeded. Between
/// these steps a cache grows beyond the budget.
struct Schedule {
  int every = 1;       // generated tokens from one act to the next; blocks of the prompt all count
  int slack = 0;       // entries that a head may hold beyond its budget before the policy acts
  bool prompt = true;  // whether it acts after blocks of the prompt
  bool generated = true;  // whether it acts after generated tokens

  /// Both together: it acts where both act.
  Schedule with(const Schedule& other) const;
  /// Whether the policy may act after this block, of a sequence whose first `prompt_length` tokens
  /// are the prompt (0: not known; then only a schedule that acts always has a meaning). A block of
  /// several generated tokens counts where one of them is an `every`-th.
  bool acts(const Block& block, int prompt_length) const;
};

}  // namespace kvloupe
