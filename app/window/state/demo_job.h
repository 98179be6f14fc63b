#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/metric/sink.h"
#include "app/demo/demo_trace.h"
#include "app/job/computed.h"
#include "app/window/state/results.h"

namespace kvloupe::window {

/// Runs of the demo model in the background, one after the other: each is captured if its trace
/// does not exist yet, and opened.
class DemoJob {
 public:
  explicit DemoJob(std::function<void()> wake) : queue_(1, std::move(wake)) {}

  /// Drops the earlier runs.
  void start(std::vector<demo::DemoRun> runs, const demo::DemoPlaces& places);
  void cancel();
  /// Whether runs are in progress, or done and their outcome not yet taken.
  bool running() const { return !taken_; }
  /// 0 to 1 while running.
  double fraction() const { return outcome_.fraction(); }
  /// The traces in the order of the runs, once, when all are ready; or the error.
  struct Outcome {
    std::vector<TracePointer> traces;
    HeadIndex rests_most;  // in the first trace: where attention to token 0 is strongest
    std::string error;     // one line; empty where all is well
  };
  std::optional<Outcome> take();

 private:
  long starts_ = 0;
  bool taken_ = true;
  job::JobQueue queue_;
  job::Computed<Outcome> outcome_;
};

/// The folder of the demo model, which comes with kvloupe; empty if it is missing.
std::string demo_model_folder();

}  // namespace kvloupe::window
