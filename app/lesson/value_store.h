#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/progress.h"
#include "analysis/trace/trace.h"
#include "app/figure/replay_store.h"

namespace kvloupe::lesson {

/// Keeps results that take long and that several values need: replays and the sinks of a trace.
/// Thread-safe, also with the window's or a gallery's replays.
class ValueStore {
 public:
  explicit ValueStore(
      std::shared_ptr<figure::ReplayStore> replays = std::make_shared<figure::ReplayStore>())
      : replays_(std::move(replays)) {}

  figure::ReplayStore& replays() const { return *replays_; }
  const std::shared_ptr<figure::ReplayStore>& shared_replays() const { return replays_; }

  /// Of token 0.
  struct Sinks {
    Matrix strengths;     // [L,Hq] mean attention from the later queries that see it
    Matrix value_ratios;  // [L,Hk] norm of its value over the median of all tokens'
    int heads = 0;        // query heads above kSinkHead
    int layer = 0;        // of the query head to look at: see strongest_sink()
    int query_head = 0;
  };
  std::shared_ptr<const Sinks> sinks(const Trace& trace, Progress& progress);

 private:
  struct Entry {
    std::string trace;
    std::shared_ptr<const Sinks> sinks;
  };
  std::shared_ptr<figure::ReplayStore> replays_;
  std::mutex mutex_;
  std::vector<Entry> entries_;  // the one used last at the end
};

}  // namespace kvloupe::lesson
