// Replays of made-up states: through a trace, or of one layer in memory beside its naive twin.

#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/replay_json.h"
#include "tests/naive/compare_replay.h"
#include "tests/support/made_layer.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unwatched.h"

namespace kvloupe::test {

/// A made-up trace in a folder of its own.
struct MadeTrace {
  MadeTrace() = default;  // then options_ may change until trace() is first called
  explicit MadeTrace(const SyntheticTraceOptions& options) : options_(options) {
    MadeTrace::trace();
  }
  virtual ~MadeTrace() = default;

  virtual const Trace& trace();
  /// `rest`: what is asked for beside the policy and the budget.
  Replay run(const std::string& spec, int budget, ReplayRequest rest = {});
  /// Of every query to the tokens that it sees, in double: the twin of all attention [T] of [T].
  const std::vector<std::vector<double>>& attention_of(int layer, int query_head);
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
  SyntheticTraceOptions options_;
  SyntheticStates states_;
  std::shared_ptr<const Trace> trace_;

 private:
  std::map<std::pair<int, int>, std::vector<std::vector<double>>> attention_;
};

/// The first layer of made-up states, without a file.
struct MadeLayerReplays {
  explicit MadeLayerReplays(const SyntheticTraceOptions& options);

  Replay run(const std::string& spec, int budget, int block) const;
  naive::Comparison compared(const Replay& fast) const;

  SyntheticTraceOptions options_;
  SyntheticStates made_;
  LayerStates states_;
  // Of every replay:
  LayerContext context_;  // but for the budget and the output weights
  bool metrics_ = true;
  int scores_head_ = -1;
  int acts_until_ = std::numeric_limits<int>::max();
};

/// Every head evicts the same tokens at the same steps.
void expect_same_sets(const Replay& a, const Replay& b, const std::string& where);

std::string json_of(const Replay& replay, const ReplayJsonOptions& options = {});

}  // namespace kvloupe::test
