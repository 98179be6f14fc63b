#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/math/sink.h"
#include "app/demo/demo_trace.h"
#include "app/job/computed.h"
#include "app/session/finding.h"
#include "app/window/state/recent_files.h"
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

struct PanelContext;

/// Writes a file for other readers in the background: of the open study a report, or a table of
/// entries by head; of the open trace its page, or a finding.
class ReportJob {
 public:
  /// Writes FILE.html or FILE.pdf. Loss, limit and risk are those of the view `certificate` where a
  /// tile shows it, else those of `kvloupe report`. Throws UsageError for another ending, FileError
  /// where the name is that of the results.
  void start(const PanelContext& context, const std::string& path);
  /// Writes FILE.csv, .npy or .json: entries by head with the state's budget as their mean, for
  /// policy A where the study has it, else its first (kvloupe advise --heads). Throws as start().
  void start_table(const PanelContext& context, const std::string& path);
  /// Writes the trace under policies A and B, at the state's budget and the usual ones of
  /// `kvloupe page`, as FILE.html. Throws UsageError and FileError as plan_page() and start() do.
  void start_page(const PanelContext& context, const std::string& path);
  /// Writes the finding about the followed tokens under policy A as FILE.html. Throws as start().
  void start_finding(const PanelContext& context, const std::string& path);
  /// Call once per frame.
  void follow(const PanelContext& context) { written_.follow(context); }
  bool writing() const { return written_.writing(); }

 private:
  WrittenFiles written_;
};

struct PanelContext;

/// The result of following the state's tokens under policy A, computed in the background.
class FindingJob {
 public:
  /// Asks for what belongs to the state now. `model`: the folder for the command line, or empty.
  void request(const PanelContext& context, const std::string& model);
  void clear() { finding_.clear(); }
  /// Nothing until it is known.
  std::shared_ptr<const Finding> current() const { return finding_.current(); }
  std::string error() const { return finding_.error(); }
  bool computing() const { return finding_.computing(); }

 private:
  struct Key {
    std::string trace, rescue, model;
    PolicySpec policy;
    Budget budget;
    std::vector<int> tokens;
    int block = 0;
    std::optional<Compression> compression;
    bool operator==(const Key&) const = default;
  };
  job::Computed<Finding, Key> finding_;
};

/// Copies it, with a line that says so.
void copy_finding(const PanelContext& context, const Finding& finding);

}  // namespace kvloupe::window
