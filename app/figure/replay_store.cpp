#include "app/figure/replay_store.h"

#include <algorithm>
#include <chrono>

#include "analysis/policy/policy_files.h"

namespace kvloupe::figure {

namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // how often a waiting thread looks up

/// Whether a replay made for `have` answers `wanted` too: the same, or with more in it.
bool covers(const ReplayRequest& have, ReplayRequest wanted) {
  wanted.metrics = wanted.metrics || have.metrics;
  if (wanted.scores_layer < 0) {
    wanted.scores_layer = have.scores_layer;
    wanted.scores_head = have.scores_head;
  }
  return have.key() == wanted.key();
}

}  // namespace

namespace {
template <typename T>
std::size_t bytes_in(const std::vector<T>& list) {
  return list.capacity() * sizeof(T);
}
}  // namespace

std::size_t bytes_of(const Replay& replay) {
  std::size_t bytes =
      sizeof(Replay) + bytes_in(replay.blocks) + bytes_in(replay.heads) + bytes_in(replay.notes);
  for (const HeadReplay& head : replay.heads) {
    bytes += bytes_in(head.evicted_at) + bytes_in(head.steps) + bytes_in(head.trace_values) +
             bytes_in(head.scores) + bytes_in(head.fates);
    for (const StepRecord& step : head.steps) {
      bytes += bytes_in(step.values) + bytes_in(step.query_heads) + bytes_in(step.merges) +
               bytes_in(step.merge_measures) + bytes_in(step.gifts);
      for (const QueryHeadRecord& query_head : step.query_heads)
        bytes += bytes_in(query_head.values);
      for (const Merge& merge : step.merges)
        bytes += bytes_in(merge.from) + bytes_in(merge.weights) + bytes_in(merge.key);
    }
    for (const auto& scores : head.scores) bytes += bytes_in(scores);
    for (const auto& fates : head.fates) bytes += bytes_in(fates);
  }
  return bytes;
}

std::list<ReplayStore::Entry>::iterator ReplayStore::find(const std::string& trace,
                                                          const ReplayRequest& request) {
  const std::string files = policy_files(request.policy);
  return std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.trace == trace && entry.files == files && covers(entry.request, request);
  });
}

std::shared_ptr<const Replay> ReplayStore::get(const Trace& trace, const ReplayRequest& request,
                                               Progress& progress) {
  const std::string key = trace.path().string() + '\n' + trace.identity();
  std::unique_lock lock(mutex_);
  for (;;) {
    progress.check();
    const auto found = find(key, request);
    if (found == entries_.end()) break;
    entries_.splice(entries_.begin(), entries_, found);
    if (found->replay) return found->replay;
    changed_.wait_for(lock, kLook);
  }
  const auto entry = entries_.insert(entries_.begin(),
                                     Entry{key, policy_files(request.policy), request, nullptr, 0});
  lock.unlock();
  try {
    ReplayRequest mine = request;
    mine.states = &states_;
    auto replay = std::make_shared<const Replay>(kvloupe::replay(trace, mine, progress));
    lock.lock();
    entry->replay = replay;
    entry->bytes = bytes_of(*replay);
    bytes_ += entry->bytes;
    make_room();
    changed_.notify_all();
    return replay;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    entries_.erase(entry);  // who waits for it computes it now
    changed_.notify_all();
    throw;
  }
}

void ReplayStore::make_room() {
  for (auto it = entries_.end(); bytes_ > most_bytes_ && it != entries_.begin();) {
    --it;
    if (!it->replay || it == entries_.begin()) continue;  // under way, or the one just made
    bytes_ -= it->bytes;
    it = entries_.erase(it);
  }
}

std::size_t ReplayStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace kvloupe::figure
