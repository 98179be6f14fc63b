#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/engine/kvloupe_engine.h"

namespace kvloupe::engine {

/// The shape that states must have.
struct StatesShape {
  std::int64_t heads = 0, rows = 0, columns = 0;
};

/// States of a caller as matrices: float32 in place; 16-bit numbers as an exact copy in float32,
/// which this object holds until the next call.
class GivenStates {
 public:
  /// [heads] of [rows, columns]. `what` and `first_row` (the number of the first row) name the
  /// place in messages. Throws UsageError for another type, shape or stride, before anything is
  /// read; WorkError for a number that is not finite.
  std::vector<MatrixView> read(const kvloupe_engine_states& states, const StatesShape& shape,
                               const std::string& what, std::int64_t first_row);

 private:
  std::vector<Matrix> copies_;  // [heads]; of 16-bit numbers
};

}  // namespace kvloupe::engine
