#pragma once

#include <cstdint>
#include <vector>

#include "analysis/replay/cache/key_panels.h"
#include "analysis/trace/trace_writer.h"
#include "capture/run/block_runner.h"

namespace kvloupe {

/// Lengths of the values v_i W_O of one query head, on the CPU: products and sums tile by tile, so
/// that v W_O [m,D] is nowhere written as a whole. Float32.
class ValueNorms {
 public:
  /// Whether this processor has the kernels.
  static bool available() { return KeyPanels::available(); }
  /// W_O of the query head as one row for each output: columns [D,d], dense.
  ValueNorms(const float* columns, std::int64_t outputs, std::int64_t d);
  /// values [m,d], dense; ‖v W_O‖₁ and ‖v W_O‖₂ [m].
  void measure(const float* values, std::int64_t m, float* l1, float* l2) const;

 private:
  KeyPanels panels_;
  std::int64_t outputs_, d_;
};

/// Query head h's slice of a layer's W_O as a trace stores it, float32 [d,D].
at::Tensor output_slice(const Transformer& model, int layer, std::int64_t query_head,
                        Storage storage);

/// W_O of a layer cut by query head, as a trace stores it: float32 [Hq,d,D].
at::Tensor output_slices(const Transformer& model, int layer, Storage storage);

/// Writes one layer's part of a trace. Every number is computed from the states as stored, so that
/// a reader who recomputes it from the file gets the same. The log-sum-exp of a row over a cache
/// with evictions cannot be recomputed from the states alone: `closed_loop` leaves it out.
class LayerWriter {
 public:
  LayerWriter(const Transformer& model, Storage storage, bool closed_loop, TraceWriter& writer);

  /// W_O cut by query head. Once per layer, before its first block.
  void write_output_weight(int layer);
  /// States, log-sum-exp, value norms and, if stored, attention rows of one block. Norms of small
  /// blocks are collected and written together.
  void write(const LayerStep& step);
  /// Writes the collected norms. Call once, after the last block.
  void finish();

 private:
  /// Tokens of a layer whose value norms are not written yet.
  struct Pending {
    int first = 0;
    int tokens = 0;
    std::vector<at::Tensor> values;  // of [Hk,m,d], as stored
  };
  void write_value_norms(int layer);

  const Transformer& model_;
  Storage storage_;
  bool closed_loop_;
  TraceWriter& writer_;
  std::vector<Pending> pending_;  // [L]
};

}  // namespace kvloupe
