#pragma once

#include <cstdint>

#include "analysis/cache/key_panels.h"

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

}  // namespace kvloupe
