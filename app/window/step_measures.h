#pragma once
// What is measured for the window: the values at the step in hand, and no others.

#include <functional>
#include <memory>
#include <string>

#include "analysis/measure/measure_catalog.h"
#include "analysis/record/layer_states.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"
#include "app/session/head_grid.h"

namespace kvloupe::window {

/// A replay that is there, and the step to measure.
struct MeasuredReplay {
  std::shared_ptr<const Trace> trace;
  std::shared_ptr<const Replay> replay;
  std::string key;  // of the replay, the trace's included
  int step = 0;
};

/// Values computed in the background. All methods belong to the window's thread.
class StepMeasures {
 public:
  /// `wake` ends the window's sleep; called from a worker thread.
  explicit StepMeasures(std::function<void()> wake);

  /// Asks for one measure of every head. `what` names trace, measure and step: values of an older
  /// replay of the same are shown until the new ones are there.
  void want_grid(const MeasuredReplay& of, const Measure& measure, const std::string& what);
  /// The heads measured so far; nullptr where there are none for `what`.
  std::shared_ptr<const GridValues> grid(const std::string& what) const;
  bool computing_grid() const { return !grid_.key().empty() && grid_.computing(); }

  /// Asks for everything that has a label (MeasureInfo) of one head, under policy A (0) or B (1).
  void want_head(int policy, const MeasuredReplay& of, int layer, int head);
  void drop_head(int policy) { heads_[policy].clear(); }
  /// Its record with the values; nullptr until they are there.
  std::shared_ptr<const StepRecord> head(int policy) const { return heads_[policy].current(); }

  bool computing() const;

 private:
  LayerStatesCache states_;  // outlives the jobs, which use it
  job::Computed<GridValues> grid_;
  job::Computed<StepRecord> heads_[2];
  job::JobQueue queue_;  // last: its jobs end first
};

}  // namespace kvloupe::window
