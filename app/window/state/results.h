#pragma once
// The files open in the window, and the queues of background jobs.

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/evaluation/evaluation.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/given_tokens.h"
#include "app/job/computed.h"
#include "app/job/job_queue.h"
#include "app/request/figure_service.h"
#include "app/session/state.h"

namespace kvloupe::window {

using TracePointer = std::shared_ptr<const Trace>;
using EvaluationPointer = std::shared_ptr<const Evaluation>;

/// Files are read in the background. What was read takes its place in take_opened(), between two
/// frames: all that one frame draws is of the same files.
class Results {
 public:
  /// `wake` ends the window's sleep; called from worker threads.
  explicit Results(std::function<void()> wake);

  /// Opens a trace in the background; trace() is the old one until it is there.
  void open(const std::filesystem::path& path);
  /// Takes a trace that is open already.
  void adopt(const TracePointer& trace);
  /// Takes over what was read since the last call: trace() and evaluation() change here only. Call
  /// once per frame, before anything is drawn. True where a trace was read, the same file again
  /// included.
  bool take_opened();
  /// The open trace or nullptr.
  const TracePointer& trace() const { return open_; }
  /// The trace that the next take_opened() will take, or the open one.
  TracePointer next_trace() const;
  /// Until the trace asked for last is taken over, or cannot be read.
  bool opening() const { return trace_.computing() || trace_.held().key != open_key_; }
  /// 0 to 1, while opening.
  double opening_share() const { return trace_.fraction(); }
  /// One line about why the trace asked for last could not be opened; else empty.
  std::string open_error() const { return trace_.error(); }

  /// Keeps a trace at hand beside the one that is shown, as those that were shown before are.
  void keep(const TracePointer& trace);
  /// A trace at hand that ran the open one's tokens in the other loop (closed beside a full run,
  /// full beside a closed one). Of several, that of policy A, else the one shown last; nullptr
  /// without one.
  TracePointer other_loop() const;
  /// How far policy A's replay in the selected layer agrees with its closed loop: the mean Jaccard
  /// index; nothing where that is not known (yet).
  std::shared_ptr<const double> agreement() const { return agreement_.current(); }

  /// Reads results of kvloupe-capture eval in the background; the ones before stay until then.
  void open_evaluation(const std::filesystem::path& path);
  const EvaluationPointer& evaluation() const { return evaluation_now_; }
  /// The one opened last of a task; nullptr where there is none.
  EvaluationPointer evaluation(Evaluation::Task task) const;
  EvaluationPointer rescue() const { return evaluation(Evaluation::Task::rescue); }
  /// Text that identifies them.
  const std::string& evaluation_key() const { return evaluation_key_; }
  bool opening_evaluation() const {
    return evaluation_.computing() || evaluation_.held().key != evaluation_key_;
  }
  std::string evaluation_error() const { return evaluation_.error(); }

  /// What of the open trace was given to the model after the prompt; nothing until that is read.
  const GivenTokens& given() const;

  /// Remembers the trace that is shown. Call once per frame.
  void follow_trace();
  /// Takes policy A's replay in the selected layer, once it is known, to find its closed loop.
  void compare_loops(const std::shared_ptr<const Replay>& replay, const figure::ReplayKey& key,
                     int layer);

  /// Text that identifies the trace and its content; part of every key.
  std::string trace_key() const;
  /// The inputs of figures.
  request::FigureInputs inputs(const figure::FigureInfo& info) const;
  /// Steps of a replay with the state's block.
  std::vector<Block> blocks(const WorkspaceState& state) const;

  /// For work whose answer matters within a frame or two: pictures of one layer.
  job::JobQueue& quick() { return quick_; }
  /// For work that needs replays of all layers.
  job::JobQueue& all_layers() { return all_layers_; }
  /// For figures that make replays of their own, which takes longer: one after the other.
  job::JobQueue& comparing() { return comparing_; }
  /// Makes all figures of the window.
  const std::shared_ptr<request::FigureService>& figures() const { return figures_; }
  /// The replays of the figures so far.
  const std::shared_ptr<figure::ReplayService>& replays() const { return figures_->replays(); }
  bool idle() const {
    return !agreement_.computing() && quick_.idle() && all_layers_.idle() && comparing_.idle();
  }

 private:
  std::vector<TracePointer> other_loops() const;
  void take_evaluation();

  std::shared_ptr<request::FigureService> figures_;
  std::shared_ptr<const Replay> replayed_;  // policy A in the selected layer; nullptr: unknown
  long opened_ = 0;
  job::Computed<TracePointer> trace_;
  TracePointer open_;                  // of this frame
  std::string open_key_;               // of the job that read it
  std::vector<TracePointer> at_hand_;  // the one shown last at the end
  job::Computed<EvaluationPointer> evaluation_;
  EvaluationPointer evaluation_now_;  // of this frame
  std::string evaluation_key_;
  std::vector<EvaluationPointer> evaluations_;              // the last one of each task
  using Loops = std::pair<figure::ReplayKey, std::string>;  // a replay, and the closed-loop trace
  job::Computed<double, Loops> agreement_;
  job::Computed<GivenTokens> given_;
  std::shared_ptr<const GivenTokens> given_now_;  // of this frame
  job::JobQueue quick_;
  job::JobQueue all_layers_;
  job::JobQueue comparing_;
};

/// The input that a figure lacks, with the remedy; empty if all is there.
std::string missing_input(const figure::FigureInfo& info, const request::FigureRequest& request);

}  // namespace kvloupe::window
