#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/record/records.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

class LayerStatesCache;  // record/layer_states.h
class SharedMeasures;    // measure/shared_measures.h
class SharedPrefix;      // policy/kit/shared_prefix.h

/// A replay to run.
struct ReplayRequest {
  PolicySpec policy = {};
  int budget = 0;  // resolved entries
  int block = 0;   // 0: the capture's own block size; kWholePrompt: one block
  /// Without a value: that of the capture, which is regular for the full cache.
  std::optional<Compression> compression = {};
  std::vector<int> layers = {};  // to compute; empty: all
  /// Whether anything is measured, at every step. For some measures at some steps of a replay that
  /// is there already: measure_replay.h.
  bool metrics = true;
  /// Measures beyond the cheap ones (measure/measure_catalog.h), by name; "all": every one.
  std::vector<std::string> measures = {};
  bool cheap = true;  // false: those measures and no others
  /// Only what measure_of() reads is measured; then measure_at() does not know every step.
  bool summary = false;
  /// Keep each step's scores of this head (memory: Σ n); -1: none; layer kEveryHead: all heads.
  int scores_layer = -1;
  int scores_head = -1;

  /// Tokens whose losses are kept, with score and rank (HeadReplay::losses); ascending.
  std::vector<int> followed = {};

  // How, not what: results do not depend on these.
  int first_layer = -1;                // computed before the others, with all cores; -1: none
  int threads = 0;                     // 0: all cores
  bool background = false;             // other replays that run at the same time come first
  LayerStatesCache* states = nullptr;  // states already read are taken from here
  SharedMeasures* shared = nullptr;    // and what other replays of the trace have measured
  SharedPrefix* prefix = nullptr;      // or what their policies have computed
};

/// The block size that a replay of the trace has, in tokens: the capture's for 0, the prompt's
/// length for kWholePrompt.
int replay_block(const Trace& trace, int block);

/// The compression that a replay of the trace has. Throws UsageError for a closed-loop trace with
/// another than its own.
Compression replay_compression(const Trace& trace, std::optional<Compression> wanted);

/// The steps a request is cut into; no step is a part of both the context and the question where
/// the policy stops at the question. Throws UsageError for a negative block, for a closed-loop
/// trace with other blocks than its own, and what replay_compression() and compression_end()
/// refuse.
std::vector<Block> replay_blocks(const Trace& trace, int block,
                                 std::optional<Compression> compression);

/// The run that a replay of the trace is. Throws what replay_compression() refuses.
RunShape run_shape(const Trace& trace, int budget, std::optional<Compression> compression);

/// Replays a policy on a trace, layers in parallel. `on_layer` is called (from a worker thread,
/// never two at once) as each layer is done, for partial results. Progress counts steps of layers
/// and is checked at each. Throws Cancelled through progress; UsageError for a layer or head out of
/// range, a measure there is not, a budget below 1, and what replay_blocks, check_limits, check_run
/// and make_layer_policy refuse; WorkError and FileError from the policy and the trace.
Replay replay(const Trace& trace, const ReplayRequest& request, Progress& progress,
              const std::function<void(const std::vector<HeadReplay>&)>& on_layer = {});

/// The model as notes and limits of a policy speak of it: with the sliding window that all layers
/// have; without one where layers differ.
ModelInfo noted_model(const Trace& trace);

/// Notes for a person on a policy at this budget on this trace (policy_notes), and on the windows
/// of layers that differ.
std::vector<std::string> replay_notes(const Trace& trace, const PolicySpec& policy, int budget);

}  // namespace kvloupe
