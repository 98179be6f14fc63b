#pragma once
// The change that a replay makes for queries that come later (measure/asked_change.h), over all its
// heads.

#include <limits>
#include <span>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/replay/measure/asked_change.h"
#include "analysis/replay/record/records.h"
#include "analysis/trace/given_tokens.h"

namespace kvloupe {

class LayerStatesCache;  // record/layer_states.h
struct MeasureChoice;    // measure/measure_catalog.h

// These options change the way of computing, not the results.
struct AskOptions {
  int threads = 0;          // 0: all cores
  bool background = false;  // other work that runs at the same time comes first
  LayerStatesCache* states = nullptr;
};

/// The answer for one set of queries. Unknown numbers are NaN.
struct AskedReplay {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<int> queries;      // tokens; empty: the trace has none to ask
  std::vector<AskedHead> heads;  // in the order of the replay's
  /// For each head: √(its squared change / that of the outputs of the whole model).
  std::vector<double> parts;
  /// [L] √(Σ_q‖Σ_heads (o' − o) W_O‖² / Σ_q‖Σ_heads o W_O‖²) of each layer that was replayed whole.
  std::vector<double> layer_errors;
  double worst_layer_error = kUnknown;  // the largest of them, if all are known
  /// The layer with that error; −1: not known.
  int worst_layer() const;
  double residual_change = kUnknown;  // the same quotient of the sums over all layers
  double logit_change = kUnknown;     // the heads' effects, added
};

/// [Q,D]: how the logit of the token that follows each of these tokens changes with the residual
/// stream there (metric/logit_path.h); 0 for the sequence's last token. Empty if the trace lacks
/// the necessary states. Throws FileError from the trace.
Eigen::MatrixXd next_token_gradients(const Trace& trace, const std::vector<int>& queries);

/// Asks the queries of one kind. `replay` is a replay of the trace, of some or all heads. Policies
/// that merge are replayed again. Progress counts layers. Throws Cancelled, and FileError from the
/// trace.
AskedReplay ask(const Trace& trace, const Replay& replay, Asked asked, const AskOptions& options,
                Progress& progress);

/// The same of several replays of the trace, in their order: numbers of the full cache alone are
/// computed once for all replays with the same blocks and heads. Progress counts layers of replays.
std::vector<AskedReplay> ask(const Trace& trace, std::span<const Replay* const> replays,
                             Asked asked, const AskOptions& options, Progress& progress);

/// Asks the queries that the choice of measures needs, and sets the heads' values. Sets the
/// progress' total.
void ask(const Trace& trace, const MeasureChoice& choice, const AskOptions& options,
         Progress& progress, Replay& replay);

}  // namespace kvloupe
