#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/metric/merging.h"
#include "analysis/metric/perturbation.h"
#include "analysis/policy/policy.h"
#include "analysis/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class LayerStatesCache;  // layer_states.h

/// What to replay.
struct ReplayRequest {
  PolicySpec policy;
  int budget = 0;           // resolved entries
  int block = 0;            // 0: the capture's own block size
  std::vector<int> layers;  // to compute; empty: all
  bool metrics = true;
  /// Measures beyond the cheap ones (measure/measure_catalog.h), by name; "all": every one.
  std::vector<std::string> measures;
  /// Keep the scores of every step of this head (memory: sum of n over the steps); -1: none.
  int scores_layer = -1;
  int scores_head = -1;

  // How, not what: results do not depend on these.
  int first_layer = -1;                // computed before the others, with all cores; -1: none
  int threads = 0;                     // 0: all cores
  bool background = false;             // other replays that run at the same time come first
  LayerStatesCache* states = nullptr;  // states already read are taken from here

  /// A text that is equal exactly where the results are: cache key, and shown in figures' metadata.
  std::string key() const;
};

/// A value given away (cam): each of the `heirs` retained tokens that follow `from` was given
/// `weight` of it. What T entries give to m others takes T of these instead of T × m pairs.
struct Gift {
  std::int32_t from = 0;
  std::int32_t heirs = 0;
  float weight = 0.0F;
};

/// One query head at one step.
struct QueryHeadRecord : QueryHeadMetrics {
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
  double merge_threshold = 0.0;   // the cosine above which neighbours merged; NaN: none were sought
  double log_pseudo_determinant = 0.0;  // Σ log λ of KᵀK over λ > n·eps·λ_max
  int rank = 0;
  std::vector<double> values;                 // of the scope step, see measure_at()
  std::vector<QueryHeadRecord> query_heads;   // [G]; empty without metrics
  std::vector<Merge> merges;                  // merging sets, as token indices, without the keys
  std::vector<MergeMeasures> merge_measures;  // [merges], of the keys before; empty without metrics
  std::vector<Gift> gifts;                    // ascending
};

/// One head's whole replay. Retained sets are held as the step at which each token left (there is
/// no resurrection), which is T integers instead of steps × N.
struct HeadReplay {
  int layer = 0;
  int head = 0;
  std::vector<std::int32_t> evicted_at;  // [T]; -1: never. Also of tokens that left unseen
  std::vector<StepRecord> steps;         // [S]
  std::vector<double> trace_values;  // of the scope trace, see measure_of(); empty without metrics
  /// Fate of each entry at each step where something was evicted, and the scores; only for the head
  /// asked for. [S] of [n], aligned with tokens_at(step).
  std::vector<std::vector<float>> scores;
  std::vector<std::vector<Fate>> fates;
};

struct Replay {
  std::string policy;  // canonical spec
  int budget = 0;
  int block = 0;
  int window = 0;             // how many tokens a query sees (Trace::window); 0: all
  std::vector<Block> blocks;  // [S]
  std::vector<std::string> notes;
  std::vector<HeadReplay> heads;  // layer-major, the layers asked for

  const HeadReplay* find(int layer, int head) const;
  /// Token indices in the cache at a step before eviction, and those retained after it; ascending.
  /// Neither has the tokens that no later query sees.
  std::vector<std::int32_t> tokens_at(const HeadReplay& head, int step) const;
  std::vector<std::int32_t> retained_at(const HeadReplay& head, int step) const;
  /// What the step's last query has when the step is over: the retained, and the one token that it
  /// saw and no later query does, where the cache still had that.
  std::vector<std::int32_t> seen_at(const HeadReplay& head, int step) const;
  /// The first token that queries after the step see: what came before has left unseen.
  int first_token(int step) const;
  /// Whether the token left the head on the model's account, with no later query to see it.
  bool left_unseen(const HeadReplay& head, int token) const;
  /// Everything merged at a step, as token indices: the sets, then what each entry was given.
  std::vector<Merge> merges_at(const HeadReplay& head, int step) const;
};

/// The steps a request is cut into. Throws UsageError for a negative block, or for a closed-loop
/// trace with other blocks than its own.
std::vector<Block> replay_blocks(const Trace& trace, int block);

/// Replays a policy on a trace, layers in parallel. `on_layer` is called (from a worker thread,
/// never two at once) as each layer is done, for partial results. Progress counts steps of layers
/// and is checked at each. Throws Cancelled through progress; UsageError for a layer or head out of
/// range, a measure there is not, a budget below 1, and what replay_blocks and make_layer_policy
/// refuse; WorkError and FileError from the policy and the trace.
Replay replay(const Trace& trace, const ReplayRequest& request, Progress& progress,
              const std::function<void(const std::vector<HeadReplay>&)>& on_layer = {});

}  // namespace kvloupe
