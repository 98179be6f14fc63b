#pragma once

#include <cstdint>
#include <span>

#include "analysis/base/core/matrix.h"
#include "analysis/math/rope.h"

namespace kvloupe {

/// Rotates keys and queries from their token index to their place in the cache (compact positions).
/// An entry that is already in its place is copied bit for bit.
class PlaceTurns {
 public:
  /// Throws WorkError if the model's rotation is not known (see Rope).
  explicit PlaceTurns(const ModelInfo& model) : rope_(model) {}

  /// rows [m,d] of the last m of the cache's tokens [n]: row r from position tokens[n − m + r] to
  /// place n − m + r.
  void turn_last(const MatrixView& rows, std::span<const std::int32_t> tokens, Matrix& turned);

 private:
  Rope rope_;
};

}  // namespace kvloupe
