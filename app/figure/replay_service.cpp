#include "app/figure/replay_service.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analysis/policy/kit/policy.h"
#include "analysis/policy/policy_files.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/segments.h"

namespace kvloupe::figure {

namespace {

constexpr auto kLook = std::chrono::milliseconds(50);  // how often a waiting thread looks up

/// Whether both are of the same run of a policy, whatever of it was asked for.
bool same_run(const ReplayKey& a, const ReplayKey& b) {
  return a.trace == b.trace && a.policy == b.policy && a.files == b.files && a.budget == b.budget &&
         a.block == b.block && a.compression == b.compression;
}

/// Whether a replay of `have` has the measures and records of `wanted`, in the layers of both.
bool has_contents(const ReplayKey& have, const ReplayKey& wanted) {
  const bool measures = have.measures == std::vector<std::string>{"all"} ||
                        std::includes(have.measures.begin(), have.measures.end(),
                                      wanted.measures.begin(), wanted.measures.end());
  const bool scores = wanted.scores_layer < 0 || (have.scores_layer == wanted.scores_layer &&
                                                  have.scores_head == wanted.scores_head);
  const bool losses = std::includes(have.followed.begin(), have.followed.end(),
                                    wanted.followed.begin(), wanted.followed.end());
  return (have.metrics || !wanted.metrics) && measures && scores && losses;
}

bool has_layers(const ReplayKey& have, const ReplayKey& wanted) {
  if (have.layers.empty() || wanted.layers.empty()) return have.layers.empty();
  return std::includes(have.layers.begin(), have.layers.end(), wanted.layers.begin(),
                       wanted.layers.end());
}

bool merged(const HeadReplay& head) {
  return std::any_of(head.steps.begin(), head.steps.end(),
                     [](const StepRecord& step) { return !step.merges.empty(); });
}

/// A replay without its heads, if none of these merged.
Replay without_heads(const Trace& trace, const ReplayKey& key) {
  Replay replay;
  replay.policy = key.policy.text();
  replay.budget = key.budget;
  replay.block = key.block;
  replay.compression = key.compression;
  replay.acts_until = compression_end(trace.tokens(), trace.run(), key.compression);
  replay.blocks = replay_blocks(trace, key.block, key.compression);
  replay.notes = replay_notes(trace, key.policy, key.budget);
  return replay;
}

/// Some layers of a replay, as if only they had been replayed; nullptr where a layer is not in it
/// or merged: then the replay's notes speak of all of its layers.
std::shared_ptr<const Replay> part_of(const Replay& replay, const Trace& trace,
                                      const ReplayKey& wanted) {
  auto part = std::make_shared<Replay>(without_heads(trace, wanted));
  std::set<int> found;
  for (const HeadReplay& head : replay.heads) {
    if (!std::binary_search(wanted.layers.begin(), wanted.layers.end(), head.layer)) continue;
    if (merged(head)) return nullptr;
    part->heads.push_back(head);
    found.insert(head.layer);
  }
  return found.size() == wanted.layers.size() ? part : nullptr;
}

/// Publishes a replay as its layers come, but not more often than one can look, and each time with
/// a quarter more than before: the copies stay below five times the whole.
class Parts {
 public:
  Parts(Replay so_far, std::chrono::milliseconds between, const ReplayService::OnPart& on_part)
      : on_part_(on_part), between_(between), so_far_(std::move(so_far)) {}
  void add(const std::vector<HeadReplay>& heads) {
    so_far_.heads.insert(so_far_.heads.end(), heads.begin(), heads.end());
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < between_ || 4 * so_far_.heads.size() < 5 * published_) return;
    last_ = now;
    published_ = so_far_.heads.size();
    on_part_(std::make_shared<const Replay>(so_far_));
  }

 private:
  const ReplayService::OnPart& on_part_;
  const std::chrono::milliseconds between_;
  Replay so_far_;
  std::size_t published_ = 0;  // heads
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

template <typename T>
std::size_t bytes_in(const std::vector<T>& list) {
  return list.capacity() * sizeof(T);
}

}  // namespace

std::string trace_key(const Trace& trace) {
  return trace.path().string() + '\n' + trace.identity();
}

ReplayKey key_of(const Trace& trace, const ReplayRequest& request) {
  ReplayKey key;
  key.trace = trace_key(trace);
  key.policy = request.policy;
  key.files = policy_files(request.policy);
  key.budget = request.budget;
  key.block = replay_block(trace, request.block);
  key.compression = replay_compression(trace, request.compression);
  const std::set<int> layers(request.layers.begin(), request.layers.end());
  bool are_all = true;
  for (int layer = 0; layer < trace.model().num_layers; ++layer)
    are_all = are_all && (!trace.attends(layer) || layers.contains(layer));
  if (!are_all) key.layers.assign(layers.begin(), layers.end());
  key.metrics = request.metrics;
  const std::set<std::string> measures(request.measures.begin(), request.measures.end());
  key.measures.assign(measures.begin(), measures.end());
  if (request.scores_layer >= 0) {
    key.scores_layer = request.scores_layer;
    key.scores_head = request.scores_head;
  }
  key.followed = request.followed;
  return key;
}

ReplayRequest request_of_head(ReplayRequest request, int layer, int head) {
  request.layers = {layer};
  request.metrics = false;
  request.scores_layer = layer;
  request.scores_head = head;
  return request;
}

std::size_t bytes_of(const Replay& replay) {
  std::size_t bytes =
      sizeof(Replay) + bytes_in(replay.blocks) + bytes_in(replay.heads) + bytes_in(replay.notes);
  for (const HeadReplay& head : replay.heads) {
    bytes += bytes_in(head.evicted_at) + bytes_in(head.steps) + bytes_in(head.trace_values) +
             bytes_in(head.asked_values) + bytes_in(head.scores) + bytes_in(head.fates) +
             bytes_in(head.losses);
    for (const StepRecord& step : head.steps) {
      bytes += bytes_in(step.values) + bytes_in(step.query_heads) + bytes_in(step.merges) +
               bytes_in(step.merge_measures) + bytes_in(step.gifts) + bytes_in(step.refits);
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

std::shared_ptr<const Replay> ReplayService::find(const Trace& trace, const ReplayKey& wanted) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const ReplayKey& have = entry->key;
    if (!entry->replay || !same_run(have, wanted) || !has_contents(have, wanted) ||
        !has_layers(have, wanted)) {
      continue;
    }
    auto replay =
        have.layers == wanted.layers ? entry->replay : part_of(*entry->replay, trace, wanted);
    if (!replay) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return replay;
  }
  return nullptr;
}

/// Waiting for a replay of more layers would take too long.
const ReplayService::Entry* ReplayService::under_way(const ReplayKey& wanted) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return !entry.replay && same_run(entry.key, wanted) && has_contents(entry.key, wanted) &&
           entry.key.layers == wanted.layers;
  });
  return found == entries_.end() ? nullptr : &*found;
}

/// The heads of a replay of all layers whose layers were replayed alone, with the same contents
/// except scores; none that merged, because notes mention these.
std::vector<HeadReplay> ReplayService::heads_there(const ReplayKey& wanted) const {
  std::vector<HeadReplay> heads;
  std::set<int> layers;
  if (!wanted.layers.empty() || wanted.scores_layer >= 0) return heads;
  // A measure of the whole model for later queries needs all layers at once.
  const bool of_model =
      std::any_of(wanted.measures.begin(), wanted.measures.end(), [](const std::string& name) {
        return name == "all" || require_measure(name).family->scope == MeasureScope::queries;
      });
  if (of_model) return heads;
  for (const Entry& entry : entries_) {
    const ReplayKey& have = entry.key;
    if (!entry.replay || have.layers.size() != 1 || layers.contains(have.layers.front()) ||
        !same_run(have, wanted) || have.metrics != wanted.metrics ||
        have.measures != wanted.measures || have.followed != wanted.followed ||
        std::any_of(entry.replay->heads.begin(), entry.replay->heads.end(), merged)) {
      continue;
    }
    layers.insert(have.layers.front());
    for (const HeadReplay& head : entry.replay->heads) {
      heads.push_back(head);
      heads.back().scores = {};
      heads.back().fates = {};
    }
  }
  return heads;
}

std::shared_ptr<const Replay> ReplayService::computed(const Trace& trace,
                                                      const ReplayRequest& request,
                                                      const ReplayKey& key,
                                                      std::vector<HeadReplay> there,
                                                      Progress& progress, const OnPart& on_part) {
  ReplayRequest rest = request;
  rest.states = &states_;
  if (there.empty() && !on_part)
    return std::make_shared<const Replay>(kvloupe::replay(trace, rest, progress));
  std::set<int> layers;
  for (const HeadReplay& head : there) layers.insert(head.layer);
  if (!there.empty()) rest.layers.clear();  // a request of all layers may name them
  for (int layer = 0; !there.empty() && layer < trace.model().num_layers; ++layer) {
    if (!layers.contains(layer) && trace.attends(layer)) rest.layers.push_back(layer);
  }
  auto replay = std::make_shared<Replay>(without_heads(trace, key));
  replay->heads = there;
  if (there.empty() || !rest.layers.empty()) {
    std::function<void(const std::vector<HeadReplay>&)> on_layer;
    if (on_part) {
      on_layer = [parts = std::make_shared<Parts>(std::move(*replay), between_parts_, on_part)](
                     const std::vector<HeadReplay>& heads) { parts->add(heads); };
    }
    *replay = kvloupe::replay(trace, rest, progress, on_layer);
    replay->heads.insert(replay->heads.end(), there.begin(), there.end());
  }
  std::stable_sort(replay->heads.begin(), replay->heads.end(),
                   [](const HeadReplay& a, const HeadReplay& b) { return a.layer < b.layer; });
  return replay;
}

std::shared_ptr<const Replay> ReplayService::get(const Trace& trace, const ReplayRequest& request,
                                                 Progress& progress, const OnPart& on_part) {
  const ReplayKey key = key_of(trace, request);
  std::unique_lock lock(mutex_);
  for (std::shared_ptr<const Replay> told;;) {
    progress.check();
    if (auto replay = find(trace, key)) return replay;
    const Entry* other = under_way(key);
    if (!other) break;
    if (on_part && other->part && other->part != told) {
      told = other->part;
      lock.unlock();
      on_part(told);
      lock.lock();
    } else {
      changed_.wait_for(lock, kLook);
    }
  }
  std::vector<HeadReplay> there = heads_there(key);
  const auto entry = entries_.insert(entries_.begin(), Entry{key, nullptr, nullptr, 0});
  lock.unlock();
  OnPart tell;
  if (on_part) {
    tell = [&](std::shared_ptr<const Replay> part) {
      {
        const std::lock_guard telling(mutex_);
        entry->part = part;
        changed_.notify_all();
      }
      on_part(std::move(part));
    };
  }
  try {
    auto replay = computed(trace, request, key, std::move(there), progress, tell);
    lock.lock();
    entry->replay = replay;
    entry->part = nullptr;
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

void ReplayService::make_room() {
  for (auto it = entries_.end(); bytes_ > most_bytes_ / 2 && it != entries_.begin();) {
    --it;
    if (!it->replay || it == entries_.begin()) continue;  // under way, or the one just made
    bytes_ -= it->bytes;
    it = entries_.erase(it);
  }
  states_.limit(most_bytes_ - std::min(bytes_, most_bytes_));
}

std::shared_ptr<const ReplayService::Reads> ReplayService::reads(
    const Trace& trace, const std::vector<int>& tokens, bool background, Progress& progress,
    const std::function<void(const Reads&)>& on_part) {
  constexpr std::size_t kMost = 8;  // sets of tokens; a set's reads take some kilobytes
  const std::string key = trace_key(trace);
  {
    const std::lock_guard lock(mutex_);
    for (const KnownReads& known : reads_) {
      if (known.trace == key && known.tokens == tokens) return known.reads;
    }
  }
  ReadsRequest request{.tokens = tokens, .background = background, .states = &states_};
  Reads so_far;
  auto reads =
      std::make_shared<const Reads>(token_reads(trace, request, progress, [&](const Reads& heads) {
        if (!on_part) return;
        so_far.insert(so_far.end(), heads.begin(), heads.end());
        on_part(so_far);
      }));
  const std::lock_guard lock(mutex_);
  reads_.push_front({key, tokens, reads});
  if (reads_.size() > kMost) reads_.pop_back();
  return reads;
}

std::size_t ReplayService::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_ + states_.bytes();
}

}  // namespace kvloupe::figure
