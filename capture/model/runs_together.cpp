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

struct Meeting {
  std::mutex mutex;
  std::condition_variable leader;  // who makes the products
  int working = 0;                 // neither wait nor have ended
};

struct Work {
  Meeting* meeting = nullptr;
  std::condition_variable go;
  bool turn = false, ended = false;
  long products = 0;              // so far
  const at::Tensor* x = nullptr;  // it waits for the products of this; null: it has ended
  Projections projections;
  std::vector<at::Tensor> results;
  std::exception_ptr problem;

  void wait_for_turn(std::unique_lock<std::mutex>& lock) {
    go.wait(lock, [&] { return turn; });
  }
  void end_turn() {
    turn = false;
    --meeting->working;
    meeting->leader.notify_one();
  }
};

thread_local Work* mine = nullptr;

/// Makes the products of those who wait for the same weights as the one who has had fewest, and
/// lets them go on.
void make_products(std::vector<Work*>& waiting, std::deque<Work*>& ready) {
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
    ready.push_back(*one);
  }
  waiting.erase(others, waiting.end());
}

}  // namespace

void run_together(const std::vector<std::function<void()>>& works) {
  Meeting meeting;
  std::deque<Work> all(works.size());
  std::deque<Work*> ready;
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
      own.ended = true;
      own.end_turn();
    };
    try {
      threads.emplace_back(do_work);
      ready.push_back(&all[i]);
    } catch (const std::system_error&) {  // no more threads
      alone.push_back(i);
    }
  }
  const auto most = static_cast<int>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  std::vector<Work*> waiting, working;
  while (!ready.empty() || !working.empty() || !waiting.empty()) {
    while (!ready.empty() && std::ssize(working) < most) {
      working.push_back(ready.front());
      ready.pop_front();
      working.back()->turn = true;
      ++meeting.working;
      working.back()->go.notify_one();
    }
    meeting.leader.wait(lock, [&] { return meeting.working < std::ssize(working); });
    std::erase_if(working, [&](Work* one) {
      if (!one->turn && !one->ended) waiting.push_back(one);
      return !one->turn;
    });
    if (working.empty() && ready.empty() && !waiting.empty()) make_products(waiting, ready);
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
  mine->end_turn();
  mine->wait_for_turn(lock);
  if (mine->problem) std::rethrow_exception(mine->problem);
  return std::move(mine->results);
}

}  // namespace kvloupe
