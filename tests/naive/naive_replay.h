#pragma once
// The replay of one layer in double precision, in plain loops that read like the formulas: the
// second path to every retained set and measure. Slow on purpose.

#include <map>
#include <set>
#include <vector>

#include "analysis/policy/spec.h"
#include "analysis/replay/layer_states.h"
#include "analysis/trace/model_info.h"

namespace kvloupe::naive {

/// One head at one step.
struct HeadStep {
  std::vector<int> cache;        // token indices before eviction, ascending
  std::map<int, double> scores;  // by token; empty where nothing is evicted
  std::set<int> protected_tokens;
  std::set<int> retained;
  double threshold = 0.0;  // the lowest score kept for its score
};

/// Of one query head, for the step's last query (CriticalKV §3).
struct Measures {
  double retained_mass = 0.0;
  double perturbation_l1 = 0.0, bound_l1 = 0.0;
  double perturbation_l2 = 0.0, bound_l2 = 0.0;
  double head_error_l2 = 0.0;
};

class NaiveReplay {
 public:
  NaiveReplay(const LayerStates& states, const ModelInfo& model, double attention_scale, int layer,
              PolicySpec policy, int budget);

  /// Appends the block's tokens to every head's cache, then evicts: [Hk].
  std::vector<HeadStep> step(const Block& block);
  /// Goes on from this retained set instead: where a tie in float32 fell the other way.
  void adopt(int head, const std::set<int>& retained);
  /// Of the query at `token` against the whole prefix, with these entries kept.
  Measures measure(int query_head, int token, const std::set<int>& retained) const;

 private:
  using Scores = std::map<int, double>;
  double logit(int query_head, int query_token, int key_token) const;
  /// Softmax of one query over a set of tokens; those after the query get nothing.
  Scores attention(int query_head, int query_token, const std::vector<int>& tokens) const;
  double key_norm(int head, int token) const;
  double product(int head, int a, int b) const;

  Scores score(int head, const Block& block) const;
  Scores tova(int head, const Block& block) const;
  Scores h2o(int head, const Block& block) const;
  Scores snapkv(int head, const Block& block) const;
  Scores keydiff(int head) const;
  Scores random(int head) const;
  std::set<int> protect(int head) const;

  const LayerStates& states_;
  ModelInfo model_;
  double scale_;
  int layer_;
  PolicySpec policy_;
  int budget_;
  std::vector<std::vector<int>> caches_;         // [Hk]
  std::vector<std::map<int, double>> received_;  // [Hk]: accumulated attention by token
};

}  // namespace kvloupe::naive
