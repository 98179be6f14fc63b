#pragma once

#include <span>
#include <vector>

#include "analysis/metric/rope.h"

namespace kvloupe {

/// Undoes the rotation of many rows, most of whose positions follow one another: the angles of 64
/// positions are known beforehand, so that a pair costs a complex product and no cosine. In double;
/// as Rope::turn() by minus the position, except for rounding.
class TurnedBack {
 public:
  explicit TurnedBack(Rope rope);

  /// The memory of a run of rows; each thread needs its own.
  struct Cursor {
    long first = -1;            // of the 64 positions at hand
    std::vector<double> turns;  // [pairs] of cos, sin of that position
  };
  void turn(std::span<float> row, long position, Cursor& cursor) const {
    turn_pairs(row, position, cursor);
  }
  void turn(std::span<double> row, long position, Cursor& cursor) const {
    turn_pairs(row, position, cursor);
  }

 private:
  static constexpr long kSteps = 64;
  template <typename Number>
  void turn_pairs(std::span<Number> row, long position, Cursor& cursor) const;

  Rope rope_;
  std::vector<double> steps_;  // [64] of [pairs] of cos, sin: of the positions 0 … 63
};

}  // namespace kvloupe
