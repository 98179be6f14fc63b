#include "capture/model/runs_together.h"

#include <c10/core/InferenceMode.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>

#include "capture/model/projection.h"

namespace kvloupe {

namespace {

struct Work;

/// Read and written under the mutex, as is what a work waits for.
struct Meeting {
  std::mutex mutex;
  std::condition_variable leader;  // who computes the part once nobody works
  std::deque<Work*> ready;
  std::vector<Work*> waiting;  // at a part of the model
  int working = 0;

  void start_next();
};

struct Work {
  Meeting* meeting = nullptr;
  std::condition_variable go;
  bool turn = false;
  long parts = 0;                    // so far
  std::pair<const void*, int> name;  // of the part at which it waits
  const std::vector<AlongTokens>* inputs = nullptr;
  const TokenPart* part = nullptr;
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

/// The inputs of several works, one after another along the tokens.
std::vector<at::Tensor> joined(std::span<Work* const> works) {
  std::vector<at::Tensor> all;
  for (std::size_t input = 0; input < works.front()->inputs->size(); ++input) {
    std::vector<at::Tensor> own;
    for (const Work* work : works) own.push_back((*work->inputs)[input].x);
    const std::int64_t dimension = (*works.front()->inputs)[input].dimension;
    all.push_back(own.front().defined() ? at::cat(own, dimension) : at::Tensor());
  }
  return all;
}

/// Computes the part of those who wait at the same one as the work that has had fewest, and lets
/// them go on.
void compute_part(Meeting& meeting) {
  std::vector<Work*>& waiting = meeting.waiting;
  const Work* const first =
      *std::min_element(waiting.begin(), waiting.end(),
                        [](const Work* a, const Work* b) { return a->parts < b->parts; });
  std::int64_t taken = 0;
  const auto others = std::stable_partition(waiting.begin(), waiting.end(), [&](const Work* work) {
    return work->name != first->name || ++taken > kFewRows;
  });
  const std::span<Work* const> works(others, waiting.end());
  std::exception_ptr problem;
  try {
    for (const AlongTokens& made : (*works.front()->part)(joined(works))) {
      // So that each token's part is dense.
      const at::Tensor by_token = made.x.movedim(made.dimension, 0).contiguous();
      const at::Tensor first = by_token[0].unsqueeze(made.dimension);
      std::int64_t place = first.storage_offset();
      for (Work* work : works) {
        work->results.push_back(first.as_strided(first.sizes(), first.strides(), place));
        place += by_token.stride(0);
      }
    }
  } catch (...) {
    problem = std::current_exception();
  }
  for (Work* work : works) {
    work->problem = problem;
    meeting.ready.push_back(work);
  }
  waiting.erase(others, waiting.end());
}

}  // namespace

void run_together(const std::vector<std::function<void()>>& works) {
  const c10::InferenceMode no_gradients;
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
    compute_part(meeting);
  }
  lock.unlock();  // the threads end
  for (const std::size_t i : alone) works[i]();
}

bool runs_together() { return mine != nullptr; }

std::vector<at::Tensor> compute_together(std::pair<const void*, int> name,
                                         const std::vector<AlongTokens>& inputs,
                                         const TokenPart& part) {
  std::unique_lock lock(mine->meeting->mutex);
  ++mine->parts;
  mine->name = name;
  mine->inputs = &inputs;
  mine->part = &part;
  mine->results.clear();
  mine->end_turn(true);
  mine->wait_for_turn(lock);
  if (mine->problem) std::rethrow_exception(mine->problem);
  return std::move(mine->results);
}

}  // namespace kvloupe
