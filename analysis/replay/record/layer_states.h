#pragma once

#include <cstddef>
#include <filesystem>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/base/core/progress.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// Which of a layer's states are in memory. Keys always are.
struct StateParts {
  bool queries = true;
  bool values = true;
  bool output_weights = true;
  bool value_norms = true;
  bool logsumexp = false;  // only for who asks: computed where the trace has none

  static StateParts keys_only() { return {false, false, false, false}; }
  StateParts with(const StateParts& other) const;
  bool cover(const StateParts& other) const;
};

/// One layer's states in memory, as stored. A part that was not asked for is empty.
struct LayerStates {
  std::vector<Matrix> keys;                  // [Hk] of [T,d]
  std::vector<Matrix> queries;               // [Hq] of [T,d]
  std::vector<Matrix> values;                // [Hk] of [T,d]
  std::vector<OutputWeight> output_weights;  // [Hq] of [d,D]; empty if the trace has none
  /// [Hq] of [T,d]: the factors of a query's attention output before W_O; empty without a gate.
  /// Present whenever values are.
  std::vector<Matrix> gates;
  std::vector<std::vector<float>> value_norms_l1, value_norms_l2;  // [Hq] of [T]; as above
  std::vector<std::vector<float>> logsumexp;  // [Hq] of [T]: of the logits that each query sees

  /// The factors of a query head's output at one token: [d]; empty without a gate.
  std::span<const float> gate(int query_head, int token) const;
  std::size_t bytes() const;
};

/// `parts`, with those that the layer's gate makes necessary. With a gate, ‖v W_O‖ depends on the
/// query, so values and W_O replace the norms.
StateParts with_gate(const Trace& trace, int layer, StateParts parts);
/// The gates of all query heads: [Hq] of [T,d]; empty for a layer that has none.
std::vector<Matrix> gates_of(const Trace& trace, int layer);

/// Checks progress before each head, and within a head whose log-sum-exps must be computed.
LayerStates load_layer_states(const Trace& trace, int layer, const StateParts& parts,
                              Progress& progress);
/// The same for callers that do not cancel.
LayerStates load_layer_states(const Trace& trace, int layer, const StateParts& parts = {});
/// One row of every head's matrix: [heads,d].
Matrix token_rows(const std::vector<Matrix>& heads, int token);
/// The queries of all query heads at one token: [Hq,d]. From the states where they have queries,
/// else from the trace.
Matrix queries_of_token(const Trace& trace, const LayerStates& states, int layer, int token);

/// Layers already read, of any trace, up to a number of bytes; the least recently used are dropped
/// first. Thread-safe; may outlive the traces.
class LayerStatesCache {
 public:
  explicit LayerStatesCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  /// The returned states may have more than the parts asked for.
  std::shared_ptr<const LayerStates> get(const Trace& trace, int layer, const StateParts& parts,
                                         Progress& progress);
  /// Another number of bytes from now on; the one used last stays, however large.
  void limit(std::size_t most_bytes);
  /// Bytes of the states that are kept now.
  std::size_t bytes() const;

 private:
  struct Key {
    std::filesystem::path path;
    std::string identity;
    int layer = 0;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    StateParts parts;
    std::size_t bytes = 0;
    std::shared_ptr<const LayerStates> states;
  };
  /// The entry of that key, now the latest; the end where there is none.
  std::list<Entry>::iterator find(const Key& key);
  void make_room();

  std::size_t most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::size_t bytes_ = 0;
};

/// A layer's states from the cache; where there is none, from the trace.
std::shared_ptr<const LayerStates> layer_states(LayerStatesCache* cache, const Trace& trace,
                                                int layer, const StateParts& parts,
                                                Progress& progress);

}  // namespace kvloupe
