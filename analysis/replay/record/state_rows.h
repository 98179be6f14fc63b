#pragma once

#include <cstddef>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/replay/record/layer_states.h"
#include "analysis/trace/trace.h"

namespace kvloupe {

/// A layer's states as a replay takes them, block by block: from memory, or read from the trace on
/// the way, so that the memory does not grow with the trace.
class StateRows {
 public:
  static constexpr std::size_t kBytesAtATime = std::size_t{32} << 20U;

  /// The rows of one block of m tokens; a part that is not there is empty.
  struct Rows {
    std::vector<MatrixView> queries;  // [Hq] of [m,d]
    std::vector<MatrixView> keys;     // [Hk] of [m,d]
    std::vector<MatrixView> values;   // [Hk] of [m,d]
  };

  /// Rows of states in memory, which must outlive this.
  explicit StateRows(const LayerStates& states) : held_(&states) {}
  /// Reads keys, and of `parts` the queries and values, from the trace, which must outlive this:
  /// about so many bytes at a time, or one block where that is more.
  StateRows(const Trace& trace, int layer, const StateParts& parts,
            std::size_t bytes_at_a_time = kBytesAtATime);

  /// Valid until the next call. Blocks may come in any order; in ascending order each token is read
  /// once. Throws what the trace throws.
  Rows of(const Block& block);

 private:
  void read(const Block& block);

  const LayerStates* held_ = nullptr;  // null: read from the trace
  const Trace* trace_ = nullptr;
  int layer_ = 0;
  StateParts parts_;
  int ahead_ = 0;                   // how many tokens are read at a time
  Block window_;                    // the tokens in memory
  Matrix queries_, keys_, values_;  // of these, of all heads one after the other: [H·m,d]
};

}  // namespace kvloupe
