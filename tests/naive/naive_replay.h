#pragma once
// The replay of one layer in double precision, in plain loops that read like the formulas: the
// second path to every retained set and measure. Slow on purpose.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>

#include "analysis/policy/kit/spec.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/trace/layer_attention.h"
#include "analysis/trace/model_info.h"
#include "tests/naive/naive_mask.h"

namespace kvloupe::naive {

/// A merging set, or what one entry was given (cam).
struct NaiveMerge {
  int into = 0;                 // all as tokens
  std::vector<int> from;        // into included, ascending
  std::vector<double> weights;  // [from]
  bool key_too = true;
  std::vector<double> key;  // [d]
  std::vector<double> value;
  double log_size = 0.0;
};

/// One head at one step.
struct HeadStep {
  std::vector<int> cache;        // token indices before eviction, ascending; those still to be seen
  std::map<int, double> scores;  // by token; empty where nothing is evicted
  std::set<int> protected_tokens;
  std::set<int> dropped;  // named by drop; never all of the cache
  std::set<int> retained;
  double threshold = std::numeric_limits<double>::quiet_NaN();  // the lowest score kept for it
  std::map<int, double> second_scores;  // of critical's second stage; empty without
  double second_threshold = std::numeric_limits<double>::quiet_NaN();
  double layer_threshold = std::numeric_limits<double>::quiet_NaN();  // adakv: of the whole layer
  int quota = 0;                                                      // places that the head has
  std::vector<NaiveMerge> merges;
  std::vector<NaiveMerge> refits;  // attentionmatching
};

/// attentionmatching: what the reference queries say of a head's cache.
struct Matching {
  Eigen::MatrixXd E;        // [r,n] exp(logit - the row's largest)
  Eigen::VectorXd sinks;    // [r] the same of the sink logit
  Eigen::VectorXd weights;  // [n] exp(log-bias) that the entries have, factors of E
};

/// Measures of one query head, for the step's last query (CriticalKV §3). Bounds are NaN for a
/// merged cache.
struct Measures {
  double retained_mass = 0.0;
  double perturbation_l1 = 0.0, bound_l1 = 0.0;
  double perturbation_l2 = 0.0, bound_l2 = 0.0;
  double head_error_l2 = 0.0;
  double magnitude = 0.0;  // what the full output adds up, Σ A_i ‖v_i W_O‖₁: rounding grows with it
};

/// Scores that are known before the first step, of one layer; for global also the places of each
/// of its heads, [Hk], of all layers' before the token `end`.
struct KnownLayer {
  std::vector<std::vector<double>> scores;  // [Hk] of [T]
  std::function<std::vector<int>(int end)> places;
};

/// What all layers say, for policies that decide after the whole pass.
struct NaivePass {
  struct Layer {
    const LayerStates* states = nullptr;
    ModelInfo model;
    LayerAttention attending;
  };
  std::vector<Layer> layers;                // those that attend
  std::vector<std::vector<float>> changes;  // [L] of [T]: of the residual stream
};

class NaiveReplay {
 public:
  NaiveReplay(const LayerStates& states, const ModelInfo& model, LayerAttention attending,
              int layer, PolicySpec policy, int budget);

  /// For policies that read a probe; borrowed.
  void know(const KnownLayer* known) { known_ = known; }
  /// For policies that act by where the prompt ends, or by structural tokens [T].
  void prompt(int length) { prompt_length_ = length; }
  void structure(std::vector<char> structural) { structural_ = std::move(structural); }
  int prompt_length() const { return prompt_length_; }
  /// For policies that read all layers; borrowed.
  void pass(const NaivePass* pass) { pass_ = pass; }
  const NaivePass& pass() const { return *pass_; }
  /// raas: the token of the last query that had this entry among its most attended.
  int stamp(int head, int token) const { return stamps_[head].at(token); }
  /// Appends the block's tokens to every head's cache, then evicts: [Hk].
  std::vector<HeadStep> step(const Block& block);
  /// Goes on from this retained set of the step just made instead: where a tie in float32 fell the
  /// other way.
  void adopt(int head, const std::set<int>& retained);
  /// Decides the step just made once more for this head, as if it had this many places, and goes on
  /// from there. Of entries that are equally heavy for kvmerger but for this difference in
  /// attention received, the heavy ones are first sought among those that are not in `light`.
  HeadStep decide_again(int head, int quota, const std::set<int>& light = {},
                        double difference = 0.0);
  /// Fewest and most places that adakv may give a head where scores that are as near as this to the
  /// layer's threshold count on either side.
  std::pair<int, int> possible_quotas(const HeadStep& step, double tolerance) const;
  /// Measures of the query at `token` against all it sees of the prefix, with these entries kept,
  /// and the one that this query saw in the cache and no later one does.
  Measures measure(int query_head, int token, const std::set<int>& retained) const;

  // The inputs of the twins of scores (tests/naive/scores).
  using Scores = std::map<int, double>;
  /// An entry after merges.
  struct Merged {
    std::vector<double> key, value;
    double log_size = 0.0;
  };
  const Merged* merged(int head, int token) const;
  /// Coordinates of an entry as it stands in the cache.
  double key(int head, int token, int c) const;
  double value(int head, int token, int c) const;
  /// c·tanh(x / c) with a soft cap c, else x.
  double capped(double x) const;
  double logit(int query_head, int query_token, int key_token) const;
  double captured_logit(int query_head, int query_token, int key_token) const;
  using Logit = double (NaiveReplay::*)(int, int, int) const;
  bool sees(int query_token, int key_token) const {
    return naive::sees(model_, query_token, key_token);
  }
  /// Softmax of one query over a set of tokens; those it does not see get nothing.
  Scores attention(int query_head, int query_token, const std::vector<int>& tokens,
                   Logit logits = &NaiveReplay::logit) const;
  /// Attention of one of the step's queries to the entries of its head's cache: softmax over all
  /// that was there when it ran, of which some may have left since.
  Scores step_attention(int query_head, int query_token) const;
  double key_norm(int head, int token) const;
  double product(int head, int a, int b) const;

  double value_norm(int head, int token, int power) const;
  /// A number in [0, 1) for an entry.
  double hash(std::uint64_t seed, int head, int token) const;
  std::set<int> protect(int head, int budget) const;
  int layer_budget(const Block& block) const;
  /// every, only: whether anything may leave after this block.
  bool acts(const Block& block) const;
  /// How many of the tokens that keep and protect_prompt name are beside the budget.
  int beside_budget(int head) const;
  const ModelInfo& model() const { return model_; }
  const LayerStates& states() const { return states_; }
  const LayerAttention& attending() const { return attending_; }
  const SpecPart& part() const { return policy_.score(); }
  int budget() const { return budget_; }
  int heads() const { return static_cast<int>(caches_.size()); }
  /// Tokens, ascending.
  const std::vector<int>& cache(int head) const { return caches_[head]; }
  /// Accumulated attention by token.
  const std::map<int, double>& received(int head) const { return received_[head]; }
  const std::vector<Block>& blocks() const { return blocks_; }
  /// attentionmatching, with the queries of the trace.
  Matching matching(int head) const;

 private:
  Scores score(int head, const Block& block, int budget) const;
  /// The scores after caote or fastcaote.
  Scores value_aware(int head, const Scores& base) const;
  /// chunks: the mean over a chunk's tokens of what the heads' scores add up to.
  void group_by_chunks(std::vector<HeadStep>& steps) const;
  /// shared: one score of each token for the heads that share a set.
  void share_sets(std::vector<HeadStep>& steps, int budget) const;
  /// pages: every token has its page's score.
  void rank_pages(HeadStep& step) const;
  /// pages: fills what is retained of so many places, and the threshold.
  void keep_pages(int quota, HeadStep& step) const;
  /// The same as group_by_chunks() with few: scores that say an order.
  static void order_by_gate(std::vector<HeadStep>& steps, int length, int few);
  Scores critical_second(int head, const Block& block, const Scores& base) const;
  /// Best first, of equals the later token; those of `among` that are not yet in `kept`.
  static std::vector<int> best(const Scores& scores, const std::vector<int>& among,
                               const std::set<int>& kept);
  /// Tokens of the cache that keep or drop names for this head.
  std::set<int> named(const std::string& modifier, int head) const;
  /// headbudgets: how many entries the table gives each head, [Hk].
  std::vector<int> table_places(const Block& block, int budget) const;
  /// Number of tokens up to the block's last that a later query sees.
  int still_seen(const Block& block) const;
  /// Stamps what the block's last query attends to most.
  void stamp_entries(int head, const Block& block);
  /// Takes the tokens that no later query sees out of a head's cache.
  void forget_unseen(int head, const Block& block);
  /// How many entries each head keeps, [Hk]; fills layer_threshold. Needs scores and protected
  /// ones.
  std::vector<int> quotas(std::vector<HeadStep>& steps, int budget) const;

  /// The head's cache as it was before the last step's eviction.
  void restore(int head);
  /// Decides which `quota` entries of a head's cache stay: fills the rest of `step`.
  void evict(int head, const Block& block, int quota, HeadStep& step) const;

  // naive_merging.cpp
  std::vector<std::vector<int>> merging_sets(int head, const std::vector<int>& candidates,
                                             double epsilon) const;
  std::vector<NaiveMerge> kvmerger(int head, const std::set<int>& kept_apart, int quota) const;
  NaiveMerge merge(int head, const std::vector<int>& set) const;
  std::vector<NaiveMerge> cam(int head, const std::set<int>& retained) const;
  std::vector<NaiveMerge> tome(int head, const std::set<int>& retained) const;
  // naive_matching.cpp
  std::vector<NaiveMerge> refitted(int head, const std::set<int>& retained) const;
  void carry_out(int head, const std::vector<NaiveMerge>& merges);
  void keep(int head, const std::set<int>& retained);
  /// quant: rounds what is due in a head's cache (naive_quantisation.cpp).
  void quantise(int head);

  const LayerStates& states_;
  ModelInfo model_;
  LayerAttention attending_;
  int layer_;
  PolicySpec policy_;
  int budget_;
  std::vector<Block> blocks_;                    // so far
  std::vector<std::vector<int>> caches_;         // [Hk]
  std::vector<std::vector<int>> present_;        // [Hk]: when the last step's queries ran
  std::vector<std::set<int>> leaving_;           // [Hk]: what left then, seen by no later query
  std::vector<std::map<int, double>> received_;  // [Hk]: accumulated attention by token
  std::vector<std::map<int, Merged>> merged_;    // [Hk]: entries that are no longer their token's
  struct {
    std::vector<std::vector<int>> caches;
    std::vector<std::map<int, double>> received;
    std::vector<std::map<int, Merged>> merged;
    std::vector<HeadStep> steps;  // before anything was evicted
  } before_;                      // the last step's eviction
  std::set<int> light_;           // see decide_again()
  double light_difference_ = 0.0;
  const KnownLayer* known_ = nullptr;
  const NaivePass* pass_ = nullptr;
  int prompt_length_ = 0;
  std::vector<char> structural_;
  std::vector<std::map<int, int>> stamps_;  // [Hk] by token
  struct FewBits {
    std::set<int> keys, values;  // the tokens whose numbers were rounded
  };
  std::vector<FewBits> few_bits_, few_bits_before_;  // [Hk]; before the last step's eviction
};

}  // namespace kvloupe::naive
