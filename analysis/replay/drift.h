#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/progress.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// One head: what it retains in the closed loop beside what a replay on the full run says.
struct HeadDrift {
  int layer = 0;
  int head = 0;
  std::vector<double> jaccard;  // [S] |A ∩ B| / |A ∪ B| of the retained sets after each step
};

/// One layer: how far the closed loop's states are from the full run's. Each is √(Σ‖x − x'‖² /
/// Σ‖x‖²) over heads and tokens, x of the full run. Outputs are the heads' attention outputs before
/// W_O, over what each head held; NaN where the closed loop merged entries, whose values a trace
/// does not hold.
struct LayerDrift {
  int layer = 0;
  double query = 0.0;
  double key = 0.0;
  double value = 0.0;
  double output = 0.0;
};

/// How a divergence of next-token distributions was found.
enum class DivergenceKind {
  none,   // the traces lack what it needs
  top,    // from the stored most probable tokens, all others as one: a lower bound
  exact,  // from hidden states and output head, the latter rounded to float16
};

/// After one token: the next-token distributions of both runs.
struct TokenDrift {
  double divergence = 0.0;       // KL(full ‖ closed) in nats; NaN where not known
  bool same_top1 = false;        // the same most probable token
  double loss_difference = 0.0;  // closed − full, of the token that follows; NaN at the last
};

/// A closed-loop run beside the full run of the same tokens.
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

  /// Over a head's steps from the first eviction on; 1 where there is none.
  static double mean_jaccard(const HeadDrift& head, int first_step);
  /// The first step at which anything was evicted in the closed loop; S where none was.
  int first_eviction = 0;
  double mean_divergence() const;       // NaN where not known
  double same_top1_share() const;       // NaN without predictions
  double mean_loss_difference() const;  // NaN without predictions
};

/// |A ∩ B| / |A ∪ B| of what two runs in the same blocks retain of one head, after each step [S],
/// of the tokens that later queries see (`window` as Trace::window). `a` and `b` [T]: the step at
/// which each token left, −1 where it stayed.
std::vector<double> retained_jaccard(const std::vector<std::int32_t>& a,
                                     const std::vector<std::int32_t>& b,
                                     const std::vector<Block>& blocks, int window);

/// Over the heads of a layer of `open`, a replay on the full run: the mean of their mean Jaccard
/// indices, as measure_drift() has them, to what `closed` retains. Throws FileError where that does
/// not say when tokens left. Progress is checked at each head.
double layer_agreement(const Replay& open, const Trace& closed, int layer, Progress& progress);

/// Whether a replay is of the policy, budget and blocks that `closed` ran with.
bool is_same_policy(const Replay& open, const Trace& closed);

/// Whether `closed` is a closed-loop run of the very tokens of `full`, a run with the full cache:
/// what measure_drift() compares. Looks only at what opening a trace has read.
bool is_drift_pair(const Trace& full, const Trace& closed);

/// A lower bound of KL(full ‖ closed) after a token, in nats, from the k most probable tokens of
/// each: those that both list count by themselves, all others as one (by the data processing
/// inequality at most the true one).
double top_divergence(const Trace::Predictions& full, const Trace::Predictions& closed,
                      std::size_t token);

/// Compares the closed-loop trace with the full one. Throws FileError where `full` is not a run
/// with the full cache, `closed` no closed loop, or they are not of the same model shape, tokens
/// and blocks; the first token that differs is named.
Drift measure_drift(const Trace& full, const Trace& closed, Progress& progress);

}  // namespace kvloupe
