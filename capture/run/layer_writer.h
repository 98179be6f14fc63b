#pragma once

#include "analysis/trace/trace_writer.h"
#include "capture/run/block_runner.h"

namespace kvloupe {

/// Writes what a trace holds of one layer. Every number is of the states as stored, so that a
/// reader who recomputes it from the file finds the same.
class LayerWriter {
 public:
  LayerWriter(const Transformer& model, Storage storage, TraceWriter& writer);

  /// W_O cut by query head. Once per layer, before its first block.
  void write_output_weight(int layer);
  /// States, log-sum-exp, value norms and, where kept, attention rows of one block.
  void write(const LayerStep& step);

 private:
  /// Query head h's slice of W_O as stored, [d,D].
  at::Tensor output_slice(int layer, std::int64_t query_head) const;

  const Transformer& model_;
  Storage storage_;
  TraceWriter& writer_;
};

}  // namespace kvloupe
