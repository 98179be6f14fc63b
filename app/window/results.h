#pragma once
// What is computed in the background for the whole window: the open trace and the replays.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "analysis/replay/replay.h"
#include "analysis/trace/trace.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"
#include "app/window/state.h"

namespace kvloupe::window {

using TracePointer = std::shared_ptr<const Trace>;

/// A policy's results. `focus` is the selected layer alone, with metrics and the selected head's
/// scores: it is there first. `all` is every layer, filled in layer by layer.
struct PolicyResults {
  job::Computed<Replay> focus;
  job::Computed<Replay> all;
  void clear() {
    focus.clear();
    all.clear();
  }
};

class Results {
 public:
  /// `wake` ends the window's sleep; called from worker threads.
  explicit Results(std::function<void()> wake);

  /// Opens a trace in the background; trace() is the old one until it is there.
  void open(const std::filesystem::path& path);
  /// The open trace or nullptr.
  TracePointer trace() const;
  bool opening() const { return trace_.computing(); }
  /// One line about why the trace asked for last could not be opened; else empty.
  std::string open_error() const { return trace_.error(); }

  /// Asks for the replays the state calls for. Call once per frame, the selection being in range.
  void update(const WorkspaceState& state);

  /// Text that identifies the trace and its content; part of every key.
  std::string trace_key() const;
  /// Steps of a replay with the state's block.
  std::vector<Block> blocks(const WorkspaceState& state) const;

  PolicyResults a;
  PolicyResults b;

  /// For pictures: answers within a frame or two matter.
  job::JobQueue& quick() { return quick_; }
  bool idle() const { return quick_.idle() && long_.idle(); }

 private:
  void request(PolicyResults& results, const std::string& spec, const WorkspaceState& state);

  long opened_ = 0;
  job::Computed<TracePointer> trace_;
  job::JobQueue quick_;
  job::JobQueue long_;
};

}  // namespace kvloupe::window
