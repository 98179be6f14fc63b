#include "capture/model/runs_together.h"

#include <c10/core/InferenceMode.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace kvloupe {

namespace {

struct Work;

/// Read and written under the mutex, as is what a work waits for.
struct Meeting {
  std::mutex mutex;
  std::condition_variable leader;  // who makes the products once nobody works
  std::deque<Work*> ready;
  std::vector<Work*> waiting;  // for products
  int working = 0;

  void start_next();
};

struct Work {
  Meeting* meeting = nullptr;
  std::condition_variable go;
  bool turn = false;
  long products = 0;              // so far
  const at::Tensor* x = nullptr;  // it waits for the products of this
  Projections projections;
  std::vector<at::Tensor> results;
  std::exception_ptr problem;

  void wait_for_turn(std::unique_lock<std::mutex>& lock) {
    go.wait(lock, [&] { return turn; });
  }
  /// The next one works in its place: the leader need not wake for each.
  void end_turn(bool waits) {
    turn = false;
    --meeting->working;
    if (waits) meeting->waiting.push_back(this);
    meeting->start_next();
    if (meeting->working == 0) meeting->leader.notify_one();
  }
};

void Meeting::start_next() {
  if (ready.empty()) return;
  ready.front()->turn = true;
  ready.front()->go.notify_one();
  ready.pop_front();
  ++working;
}

thread_local Work* mine = nullptr;

/// Makes the products of those who wait for the same weights as the one who has had fewest, and
/// lets them go on.
void make_products(Meeting& meeting) {
  std::vector<Work*>& waiting = meeting.waiting;
  const Work* const first =
      *std::min_element(waiting.begin(), waiting.end(),
                        [](const Work* a, const Work* b) { return a->products < b->products; });
  const auto key = [](const Work* work) { return work->projections.front()->weight.data_ptr(); };
  const auto others = std::stable_partition(
      waiting.begin(), waiting.end(), [&](const Work* work) { return key(work) != key(first); });
  std::vector<at::Tensor> all;
  for (auto one = others; one != waiting.end(); ++one) all.push_back(*(*one)->x);
  std::exception_ptr problem;
  std::vector<std::vector<at::Tensor>> results(all.size());
  try {
    results = project_each(all, first->projections);
  } catch (...) {
    problem = std::current_exception();
  }
  for (auto one = others; one != waiting.end(); ++one) {
    (*one)->results = std::move(results[static_cast<std::size_t>(one - others)]);
    (*one)->problem = problem;
    meeting.ready.push_back(*one);
  }
  waiting.erase(others, waiting.end());
}

}  // namespace

void run_together(const std::vector<std::function<void()>>& works) {
  Meeting meeting;
  std::deque<Work> all(works.size());
  std::vector<std::size_t> alone;
  std::vector<std::jthread> threads;
  std::unique_lock lock(meeting.mutex);
  for (std::size_t i = 0; i < works.size(); ++i) {
    all[i].meeting = &meeting;
    const auto do_work = [&own = all[i], &work = works[i]] {
      const c10::InferenceMode no_gradients;
      std::unique_lock lock(own.meeting->mutex);
      own.wait_for_turn(lock);
      lock.unlock();
      mine = &own;
      tbb::task_arena(1).execute(work);  // its loops have this thread
      lock.lock();
      own.end_turn(false);
    };
    try {
      threads.emplace_back(do_work);
      meeting.ready.push_back(&all[i]);
    } catch (const std::system_error&) {  // no more threads
      alone.push_back(i);
    }
  }
  const auto most = static_cast<int>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  for (;;) {
    for (int i = 0; i < most; ++i) meeting.start_next();
    meeting.leader.wait(lock, [&] { return meeting.working == 0; });
    if (meeting.waiting.empty()) break;
    make_products(meeting);
  }
  lock.unlock();  // the threads end
  for (const std::size_t i : alone) works[i]();
}

std::optional<std::vector<at::Tensor>> project_together(const at::Tensor& x,
                                                        Projections projections) {
  if (mine == nullptr) return std::nullopt;
  std::unique_lock lock(mine->meeting->mutex);
  ++mine->products;
  mine->x = &x;
  mine->projections = projections;
  mine->end_turn(true);
  mine->wait_for_turn(lock);
  if (mine->problem) std::rethrow_exception(mine->problem);
  return std::move(mine->results);
}

}  // namespace kvloupe
