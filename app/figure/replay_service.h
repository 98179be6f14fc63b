#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/replay/replay.h"

namespace kvloupe::figure {

/// Identifies a replay: equal keys give equal results.
struct ReplayKey {
  std::string trace;  // path and identity (trace_key)
  PolicySpec policy;
  std::string files;  // that the policy reads, as they were
  int budget = 0;     // entries
  int block = 0;      // tokens
  Compression compression = Compression::regular;
  std::vector<int> layers;  // ascending; empty: all
  bool metrics = false;
  std::vector<std::string> measures;  // ascending
  int scores_layer = -1, scores_head = -1;
  std::vector<int> followed;  // ascending
  bool operator==(const ReplayKey&) const = default;
};
ReplayKey key_of(const Trace& trace, const ReplayRequest& request);
/// A request for one layer with the scores of one of its heads, nothing measured: all views of a
/// head ask for this, so that it is replayed once.
ReplayRequest request_of_head(ReplayRequest request, int layer, int head);
/// ReplayKey::trace of every replay of this trace.
std::string trace_key(const Trace& trace);

/// Replays and layer states for window, figures and command line: made once, kept up to a number of
/// bytes, the least recently used going first. A request for a replay under way waits for it. A
/// replay with more in it (metrics, scores, other layers) serves for less, and a layer that is
/// there is not replayed again for all. Safe to share by threads; not for use inside a parallel
/// loop, because a thread that waits for another's replay may be the one that should compute it.
class ReplayService {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{768} << 20U;
  static constexpr std::chrono::milliseconds kBetweenParts{120};
  /// Replays take at most half of the bytes; layer states what replays leave.
  explicit ReplayService(std::size_t most_bytes = kMostBytes,
                         std::chrono::milliseconds between_parts = kBetweenParts)
      : states_(most_bytes), most_bytes_(most_bytes), between_parts_(between_parts) {}

  /// Receives the finished part of a replay while it is computed, now and then, from worker
  /// threads: fewer heads than asked for.
  using OnPart = std::function<void(std::shared_ptr<const Replay>)>;

  /// The whole replay; who waits for another's gets its parts too. Progress and errors are those of
  /// replay(); what failed or was cancelled is not kept.
  std::shared_ptr<const Replay> get(const Trace& trace, const ReplayRequest& request,
                                    Progress& progress, const OnPart& on_part = {});

  using Reads = std::vector<TokenReads>;
  /// token_reads() of these tokens, ascending. `on_part` gets all heads so far. Those of the last
  /// few sets of tokens are kept.
  std::shared_ptr<const Reads> reads(const Trace& trace, const std::vector<int>& tokens,
                                     bool background, Progress& progress,
                                     const std::function<void(const Reads&)>& on_part = {});

  /// How long a picture of a part is shown before the next one replaces it.
  std::chrono::milliseconds between_parts() const { return between_parts_; }
  /// Layers already read, for code that needs the states themselves.
  LayerStatesCache& states() { return states_; }
  /// Bytes that are kept now: replays and states.
  std::size_t bytes() const;

 private:
  struct Entry {
    ReplayKey key;
    std::shared_ptr<const Replay> replay;  // nullptr while it is computed
    std::shared_ptr<const Replay> part;    // the latest, for who waits
    std::size_t bytes = 0;
  };
  struct KnownReads {
    std::string trace;  // trace_key
    std::vector<int> tokens;
    std::shared_ptr<const Reads> reads;
  };
  std::shared_ptr<const Replay> find(const Trace& trace, const ReplayKey& wanted);
  const Entry* under_way(const ReplayKey& wanted) const;
  std::vector<HeadReplay> heads_there(const ReplayKey& wanted) const;
  std::shared_ptr<const Replay> computed(const Trace& trace, const ReplayRequest& request,
                                         const ReplayKey& key, std::vector<HeadReplay> there,
                                         Progress& progress, const OnPart& on_part);
  void make_room();

  LayerStatesCache states_;
  const std::size_t most_bytes_;
  const std::chrono::milliseconds between_parts_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;     // the latest used first
  std::size_t bytes_ = 0;        // of the replays
  std::list<KnownReads> reads_;  // the latest first
};

/// About how much memory a replay takes.
std::size_t bytes_of(const Replay& replay);

}  // namespace kvloupe::figure
