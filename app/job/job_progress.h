#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "analysis/progress.h"

namespace kvloupe::job {

/// Progress of a job that a person may watch: how long it has run, how long it still takes, and
/// whether that person stopped it. Thread-safe.
class JobProgress : public Progress {
 public:
  /// The job begins to run; before, it waits for another.
  void begin() { begun_ = Clock::now().time_since_epoch().count(); }
  bool begun() const { return begun_ != 0; }
  /// Since begin(); 0 before.
  double seconds() const;
  /// Since somebody asked for the job.
  double seconds_asked() const { return since(asked_); }
  /// The time left if the job's speed stays the same. Nothing in the first second and before two
  /// per cent are done, because it would be a guess.
  std::optional<double> seconds_left() const;

  /// As cancel(), but asked for by a person: the program does not start the job again by itself.
  void stop() {
    stopped_ = true;
    cancel();
  }
  bool stopped() const { return stopped_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::rep start);
  const Clock::rep asked_ = Clock::now().time_since_epoch().count();
  std::atomic<Clock::rep> begun_{0};
  std::atomic<bool> stopped_{false};
};

/// "17 of 80 layers, about 12 s left", "34 %" where nothing is counted, "finishing" or "waiting for
/// another job".
std::string how_far(const JobProgress& progress);
/// A share done, from 0 to 1, in per cent: for jobs whose time is not known.
std::string in_percent(double share);

}  // namespace kvloupe::job
