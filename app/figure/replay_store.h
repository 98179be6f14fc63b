#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "analysis/progress.h"
#include "analysis/record/layer_states.h"
#include "analysis/replay/replay.h"

namespace kvloupe::figure {

/// Replays already made, of any trace, up to a number of bytes; the least recently used go first.
/// Shared by all figures of a window or of a gallery, so that none is computed twice, also when
/// two figures ask at once. Safe to share by threads; not for use inside a parallel loop, where a
/// thread that waits for another's replay may be the one that should compute it.
class ReplayStore {
 public:
  static constexpr std::size_t kReplayBytes = std::size_t{512} << 20U;
  static constexpr std::size_t kStatesBytes = std::size_t{256} << 20U;
  explicit ReplayStore(std::size_t most_bytes = kReplayBytes,
                       std::size_t states_bytes = kStatesBytes)
      : states_(states_bytes), most_bytes_(most_bytes) {}

  /// The replay, computed unless it (or the same with more in it: metrics, scores) is there.
  /// Progress and errors are those of replay(); what failed is not kept.
  std::shared_ptr<const Replay> get(const Trace& trace, const ReplayRequest& request,
                                    Progress& progress);
  /// Layers already read, for whoever needs the states themselves.
  LayerStatesCache& states() { return states_; }
  /// What is kept now.
  std::size_t bytes() const;

 private:
  struct Entry {
    std::string trace;
    std::string files;  // that the policy reads, as they were
    ReplayRequest request;
    std::shared_ptr<const Replay> replay;  // nullptr while it is computed
    std::size_t bytes = 0;
  };
  std::list<Entry>::iterator find(const std::string& trace, const ReplayRequest& request);
  void make_room();

  LayerStatesCache states_;
  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;  // the latest used first
  std::size_t bytes_ = 0;
};

/// About how much memory a replay takes.
std::size_t bytes_of(const Replay& replay);

}  // namespace kvloupe::figure
