#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// One head: the sets retained in the closed loop, compared with a replay on the full run.
struct HeadDrift {
  int layer = 0;
  int head = 0;
  std::vector<double> jaccard;  // [S] |A ∩ B| / |A ∪ B| of the retained sets after each step
};

/// One layer: how far the closed loop's states are from those of the full run. Each value is √(Σ‖x
/// − x'‖² / Σ‖x‖²) over heads and tokens, with x of the full run. Outputs are the heads' attention
/// outputs before W_O, over the entries that each head held; NaN if the closed loop merged entries
/// or held them in few bits, because a trace holds the tokens' own states.
struct LayerDrift {
  int layer = 0;
  double query = 0.0;
  double key = 0.0;
  double value = 0.0;
  double output = 0.0;
};

/// How a divergence of next-token distributions was computed.
enum class DivergenceKind {
  none,   // the traces do not have the data
  top,    // from the stored most probable tokens, all others as one: a lower bound
  exact,  // from hidden states and output head, the latter rounded to float16
};

/// After one token: the next-token distributions of both runs.
struct TokenDrift {
  double divergence = 0.0;       // KL(full ‖ closed) in nats; NaN where not known
  bool same_top1 = false;        // the same most probable token
  double loss_difference = 0.0;  // closed − full, of the token that follows; NaN at the last
};

/// A closed-loop run compared with the full run of the same tokens.
struct Drift {
  std::string policy;  // canonical spec
  int budget = 0;
  std::string positions;
  std::vector<Block> blocks;     // [S]
  std::vector<HeadDrift> heads;  // layer-major
  std::vector<LayerDrift> layers;
  DivergenceKind divergence_kind = DivergenceKind::none;
  std::vector<TokenDrift> tokens;  // [T]; empty where a trace has no predictions
  std::vector<std::string> notes;

  /// Over a head's steps from the first eviction on; 1 without an eviction.
  static double mean_jaccard(const HeadDrift& head, int first_step);
  /// The first step at which the closed loop evicted anything; S without an eviction.
  int first_eviction = 0;
  double mean_divergence() const;       // NaN where not known
  double same_top1_share() const;       // NaN without predictions
  double mean_loss_difference() const;  // NaN without predictions
};

/// |A ∩ B| / |A ∪ B| of the sets that two runs with the same blocks retain in one head, after each
/// step [S], over the tokens that later queries see (`window` as Trace::window). `a` and `b` [T]:
/// the step at which each token left, −1 if it stayed.
std::vector<double> retained_jaccard(const std::vector<std::int32_t>& a,
                                     const std::vector<std::int32_t>& b,
                                     const std::vector<Block>& blocks, const Reach& reach);

/// For a layer of `open`, a replay on the full run: the mean over its heads of the mean Jaccard
/// index, as in measure_drift(), with the sets that `closed` retains. Throws FileError if `closed`
/// does not say when tokens left. Checks progress at each head.
double layer_agreement(const Replay& open, const Trace& closed, int layer, Progress& progress);

/// Whether a replay has the policy, budget and blocks that `closed` ran with.
bool is_same_policy(const Replay& open, const Trace& closed);

/// Whether `closed` is a closed-loop run of the same tokens as `full`, a run with the full cache;
/// measure_drift() needs such a pair. Reads only what opening a trace has already read.
bool is_drift_pair(const Trace& full, const Trace& closed);

/// A lower bound of KL(full ‖ closed) after a token, in nats, from the k most probable tokens of
/// each run: tokens in both lists count one by one, all others as one token. By the data processing
/// inequality this is at most the true value.
double top_divergence(const Trace::Predictions& full, const Trace::Predictions& closed,
                      std::size_t token);

/// Compares the closed-loop trace with the full one. Throws FileError if `full` is not a run with
/// the full cache, `closed` is not a closed loop, or the two differ in model shape, tokens or
/// blocks; the message names the first token that differs.
Drift measure_drift(const Trace& full, const Trace& closed, Progress& progress);

}  // namespace kvloupe
