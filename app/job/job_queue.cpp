#include "app/job/job_queue.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/base/text/text.h"

namespace kvloupe::job {

double JobProgress::since(Clock::rep start) {
  const auto time = Clock::now().time_since_epoch() - Clock::duration(start);
  return std::chrono::duration<double>(time).count();
}

double JobProgress::seconds() const { return begun() ? since(begun_) : 0.0; }

std::optional<double> JobProgress::seconds_left() const {
  constexpr double kFirst = 1.0;  // seconds
  constexpr double kLeast = 0.02;
  const double share = fraction(), so_far = seconds();
  if (so_far < kFirst || share < kLeast) return std::nullopt;
  return so_far * std::max(0.0, 1.0 - share) / share;
}

std::string in_percent(double share) {
  return fmt::format("{:.0f} %", std::floor(100 * std::clamp(share, 0.0, 1.0)));
}

std::string how_far(const JobProgress& progress) {
  if (!progress.begun()) return "waiting for another job";
  if (progress.fraction() >= 1.0) return "finishing";
  const auto counted = progress.counted();
  // All are done while the whole is not: what goes on now is not counted.
  const bool goes_on = counted && counted->of > 1 && counted->done < counted->of;
  const std::string share =
      goes_on ? fmt::format("{} of {} {}", counted->done, counted->of, counted->things)
              : in_percent(progress.fraction());
  const std::optional<double> left = progress.seconds_left();
  return left ? share + ", " + duration_text(*left) + " left" : share;
}

namespace {
// On Linux the nice value belongs to the thread, and threads it starts inherit it.
void lower_priority_of_this_thread() {
#ifdef __linux__
  const auto thread = static_cast<id_t>(gettid());
  setpriority(PRIO_PROCESS, thread,
              std::min(getpriority(PRIO_PROCESS, thread) + JobQueue::kNice, 19));
#endif
}
}  // namespace

JobQueue::JobQueue(int threads, std::function<void()> wake) : wake_(std::move(wake)) {
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

JobQueue::~JobQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    for (Job& job : waiting_) job.progress->cancel();
    waiting_.clear();
    for (auto& progress : running_) progress->cancel();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::shared_ptr<JobProgress> JobQueue::submit(Work work) {
  auto progress = std::make_shared<JobProgress>();
  {
    const std::lock_guard lock(mutex_);
    // A cancelled job would only be skipped later; without this a dragged slider grows the queue.
    std::erase_if(waiting_, [](const Job& job) { return job.progress->cancelled(); });
    waiting_.push_back({std::move(work), progress});
  }
  changed_.notify_one();
  return progress;
}

bool JobQueue::idle() const {
  const std::lock_guard lock(mutex_);
  const bool waits = std::any_of(waiting_.begin(), waiting_.end(),
                                 [](const Job& job) { return !job.progress->cancelled(); });
  return !waits && running_.empty();
}

void JobQueue::run() {
  lower_priority_of_this_thread();
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
      if (closing_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      if (job.progress->cancelled()) continue;
      running_.push_back(job.progress);
      job.progress->begin();
    }
    if (delay) delay();
    try {
      job.work(*job.progress);
    } catch (...) {  // see submit()
    }
    if (delay) delay();
    job.work = nullptr;  // release what it holds before saying that it is over
    {
      const std::lock_guard lock(mutex_);
      std::erase(running_, job.progress);
    }
    wake();
  }
}

}  // namespace kvloupe::job
