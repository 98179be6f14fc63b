#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "analysis/base/core/progress.h"

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

/// Worker threads that run jobs in the order they were submitted. The threads run at a lower
/// priority than the thread that made the queue, so that drawing stays smooth while they compute.
/// All queues have the same priority: threads that a job starts inherit it, and those of oneTBB's
/// pool then serve the jobs of every queue.
class JobQueue {
 public:
  using Work = std::function<void(Progress&)>;
  static constexpr int kNice = 10;

  /// `wake` is called from a worker after each job, for example to end the window's sleep. It must
  /// be callable from any thread as long as the queue exists.
  explicit JobQueue(int threads, std::function<void()> wake = {});
  /// Cancels everything, waits until the running jobs notice, joins.
  ~JobQueue();
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  /// Queues `work`. Cancelling the returned progress drops the job if it has not started, and makes
  /// its next advance() throw if it has. `work` must handle its own exceptions: any that escapes is
  /// swallowed here, so that a job can never end the program.
  std::shared_ptr<JobProgress> submit(Work work);

  /// Tells the window that something was published before the job's end.
  void wake() const {
    if (wake_) wake_();
  }
  /// Whether no job waits or runs.
  bool idle() const;
  /// For tests: called on the worker's thread before each job and after it, so that results come
  /// late, as on a busy machine. Set before the first queue is made.
  static inline void (*delay)() = nullptr;

 private:
  struct Job {
    Work work;
    std::shared_ptr<JobProgress> progress;
  };
  void run();

  std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_;
  std::vector<std::shared_ptr<JobProgress>> running_;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace kvloupe::job
