#pragma once
// Results of a replay: records of every head at every step. Measures and figures read these;
// nothing here computes.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "analysis/math/merging.h"
#include "analysis/policy/kit/policy.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// A value given away (cam): each of the `heirs` retained tokens that follow `from` was given
/// `weight` of it. T entries that give to m others take T of these instead of T × m pairs.
struct Gift {
  std::int32_t from = 0;
  std::int32_t heirs = 0;
  float weight = 0.0F;
};

/// An entry that stayed with its key but got a log-bias and a value of its own (attentionmatching).
struct Refit {
  std::int32_t token = 0;
  float log_bias = 0.0F;  // added to its logit from now on
  float value_change = 0.0F;  // ‖v' − v‖₂ / ‖v‖₂, v: the value before the step; NaN if v is 0
};

/// How a token that was followed (ReplayRequest::followed) left a head.
struct TokenLoss {
  std::int32_t token = 0;
  std::int32_t step = 0;
  Fate fate = Fate::evicted;                              // evicted, dropped or merged
  float score = std::numeric_limits<float>::quiet_NaN();  // NaN where the policy gave none
  int rank = 0;     // 1 is the highest; of equal scores the later entry ranks higher; 0: no score
  int entries = 0;  // n before the eviction
  float threshold = std::numeric_limits<float>::quiet_NaN();  // the lowest score kept for its score
  double margin() const { return static_cast<double>(score) - static_cast<double>(threshold); }
};

/// One query head at one step.
struct QueryHeadRecord {
  std::vector<double> values;  // of the scope query_head, see measure_at()
};

/// One head at one step.
struct StepRecord {
  int cache_size = 0;  // n before eviction, without what no later query sees
  int retained = 0;
  int seen = 0;  // tokens so far that later queries see: what a cache without a policy would hold
  float threshold = 0.0F;
  int ties = 0;
  float second_threshold = 0.0F;  // of a second stage of selection; NaN where there was none
  int allocation_drift = 0;       // what the layer's quotas sum to, less its budget
  int rounded = 0;                // retained entries with a key or a value in few bits (quant)
  double merge_threshold = 0.0;   // the cosine above which neighbours merged; NaN: none were sought
  std::vector<Merge> merges;      // merging sets, as token indices, without the keys
  std::vector<Gift> gifts;        // ascending
  std::vector<Refit> refits;      // ascending

  // Measures (measure/measure_catalog.h); empty where the step was not measured.
  std::vector<double> values;                 // of the scope step, see measure_at()
  std::vector<QueryHeadRecord> query_heads;   // [G]
  std::vector<MergeMeasures> merge_measures;  // [merges], of the keys before

  bool measured() const { return !query_heads.empty(); }
  /// Whether the step made synthetic entries: keys, values or biases that the trace does not have.
  bool made_entries() const { return !merges.empty() || !gifts.empty() || !refits.empty(); }
  /// Whether the cache then differs from the trace: synthetic entries, or fewer bits.
  bool differs_from_trace() const { return made_entries() || rounded > 0; }
};

/// One head's whole replay. Retained sets are held as the step at which each token left (there is
/// no resurrection), which is T integers instead of steps × N.
struct HeadReplay {
  int layer = 0;
  int head = 0;
  int shares_with = -1;  // the layer whose cache this is and which decides; -1: its own
  Reach reach;           // what a query of the layer sees (Trace::reach)
  std::vector<std::int32_t> evicted_at;  // [T]; -1: never. Also of tokens that left unseen
  std::vector<StepRecord> steps;         // [S]
  std::vector<double> trace_values;  // of the scope trace, see measure_of(); empty: not measured
  std::vector<double> asked_values;  // of the scope queries, the same
  /// Fate of each entry at each step where something was evicted, and the scores; only for the head
  /// asked for. [S] of [n], aligned with tokens_at(step).
  std::vector<std::vector<float>> scores;
  std::vector<std::vector<Fate>> fates;
  std::vector<TokenLoss> losses;  // of the tokens followed, ascending by token
};

/// Rank of an entry by its score among a step's entries: 1 is the highest; of equal scores the
/// later entry ranks higher.
int score_rank(const std::vector<float>& scores, std::size_t row);
/// The entries by score_rank: the highest first.
std::vector<std::size_t> by_score(const std::vector<float>& scores);

struct Replay {
  std::string policy;  // canonical spec
  int budget = 0;
  int block = 0;
  Compression compression = Compression::regular;
  /// The policy acts at the steps that end at this token or before; later steps evict nothing.
  int acts_until = std::numeric_limits<int>::max();
  std::vector<Block> blocks;  // [S]
  std::vector<std::string> notes;
  std::vector<HeadReplay> heads;  // layer-major, the layers asked for

  const HeadReplay* find(int layer, int head) const;
  /// Token indices in the cache at a step before eviction, and those retained after it; ascending.
  /// Neither has the tokens that no later query sees.
  std::vector<std::int32_t> tokens_at(const HeadReplay& head, int step) const;
  std::vector<std::int32_t> retained_at(const HeadReplay& head, int step) const;
  /// The tokens that the step's last query has when the step is over: the retained ones, and those
  /// still in the cache that this query saw and no later query sees.
  std::vector<std::int32_t> seen_at(const HeadReplay& head, int step) const;
  /// The first token that queries of the head's layer after the step see: earlier tokens have left
  /// unseen.
  int first_token(const HeadReplay& head, int step) const;
  /// Whether the policy acts at the step.
  bool acts_at(int step) const;
  /// Whether the token left the head on the model's account, with no later query to see it.
  bool left_unseen(const HeadReplay& head, int token) const;
  /// Everything merged at a step, as token indices: the sets, then what each entry was given.
  std::vector<Merge> merges_at(const HeadReplay& head, int step) const;
};

}  // namespace kvloupe
