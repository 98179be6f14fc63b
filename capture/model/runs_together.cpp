#include "capture/model/runs_together.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace kvloupe {

namespace {

/// Those who work in turn, and those who wait for products.
struct Meeting {
  std::mutex mutex;
  std::condition_variable leader;
  struct Work* turn = nullptr;  // of whom it is; null: of the leader, who makes the products
};

struct Work {
  Meeting* meeting = nullptr;
  std::condition_variable go;
  long products = 0;              // so far
  const at::Tensor* x = nullptr;  // it waits for the products of this; null: it has ended
  Projections projections;
  std::vector<at::Tensor> results;
  std::exception_ptr problem;

  void wait_for_turn(std::unique_lock<std::mutex>& lock) {
    go.wait(lock, [&] { return meeting->turn == this; });
  }
  void end_turn() {
    meeting->turn = nullptr;
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
      work();
      lock.lock();
      own.x = nullptr;
      own.end_turn();
    };
    try {
      threads.emplace_back(do_work);
      ready.push_back(&all[i]);
    } catch (const std::system_error&) {  // no more threads
      alone.push_back(i);
    }
  }
  std::vector<Work*> waiting;
  while (!ready.empty() || !waiting.empty()) {
    if (ready.empty()) {
      make_products(waiting, ready);
      continue;
    }
    Work* const next = ready.front();
    ready.pop_front();
    meeting.turn = next;
    next->go.notify_one();
    meeting.leader.wait(lock, [&] { return meeting.turn == nullptr; });
    if (next->x != nullptr) waiting.push_back(next);
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
