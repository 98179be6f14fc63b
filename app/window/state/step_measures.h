#pragma once
// The measures for the window: only the values at the step shown.

#include <functional>
#include <memory>

#include "analysis/record/records.h"
#include "analysis/trace/asked_queries.h"
#include "app/figure/replay_service.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"

namespace kvloupe::window {

/// A replay that is there, and the step to measure.
struct MeasuredReplay {
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const Replay> replay;
  figure::ReplayKey key;
  int step = 0;
};

/// A policy's change in the whole model for queries that come later.
struct WholeModel {
  Asked asked = Asked::later;
  int queries = 0;
  double change = 0.0;       // of all heads together
  double worst_error = 0.0;  // of a layer
  int worst_layer = -1;
};

/// Values computed in the background. All methods belong to the window's thread.
class StepMeasures {
 public:
  /// States are taken from `replays`, which hold those of the layers that were just replayed.
  /// `wake` ends the window's sleep; called from a worker thread.
  StepMeasures(std::shared_ptr<figure::ReplayService> replays, std::function<void()> wake);

  /// Asks for the replay's change for later queries, of policy A (0) or B (1): the answer's, else
  /// the question's, else a sample of all.
  void want_whole(int policy, const MeasuredReplay& of);
  void drop_whole(int policy) { wholes_[policy].clear(); }
  /// nullptr until it is known. While another budget is computed, the last one of the trace.
  std::shared_ptr<const WholeModel> whole(int policy) const { return wholes_[policy].value(); }

  /// Asks for everything that has a label (MeasureInfo) of one head, under policy A (0) or B (1).
  void want_head(int policy, const MeasuredReplay& of, int layer, int head);
  void drop_head(int policy) { heads_[policy].clear(); }
  /// Its record with the values; nullptr until they are there.
  std::shared_ptr<const StepRecord> head(int policy) const { return heads_[policy].current(); }

  bool computing() const;

 private:
  std::shared_ptr<figure::ReplayService> replays_;  // outlives the jobs, which use it
  struct HeadKey {
    figure::ReplayKey replay;
    int layer = -1, head = -1, step = -1;
    bool operator==(const HeadKey&) const = default;
  };
  job::Computed<StepRecord, HeadKey> heads_[2];
  job::Computed<WholeModel, figure::ReplayKey> wholes_[2];
  job::JobQueue queue_;  // last: its jobs end first
};

}  // namespace kvloupe::window
