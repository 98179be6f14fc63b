#pragma once

#include <span>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Rotary position embedding of one model's keys: pair j of a key at position p is rotated by the
/// angle p·θ^(−2j/r), r = d or the model's rotary_dim, beyond which coordinates stay, or by the
/// angle that the model's scaling gives (see rope_scaling.h). Rotation does not change lengths: if
/// a model's rotation also stretches keys, they stay stretched when the rotation is undone.
class Rope {
 public:
  /// Throws WorkError if the model has no rope_theta, an odd number of rotated coordinates, a
  /// scaling that is not known here, or a partial rotation that only its config.json speaks of.
  explicit Rope(const ModelInfo& model);

  /// Rotates a key [d] by this many positions; minus its own position undoes the rotation. Computed
  /// in double.
  void turn(std::span<float> key, double positions) const { turn_pairs(key, positions); }
  void turn(std::span<double> key, double positions) const { turn_pairs(key, positions); }

  /// Pair j: the two coordinates that turn together, and the angle of one position.
  struct Pair {
    Eigen::Index first = 0, second = 0;
    double frequency = 0.0;  // θ^(−2j/r) without scaling
  };
  std::size_t pairs() const { return frequencies_.size(); }
  Pair pair(std::size_t j) const;

 private:
  template <typename Number>
  void turn_pairs(std::span<Number> key, double positions) const;

  std::vector<double> frequencies_;  // [r/2]
  bool halves_;
  std::size_t start_;  // the first rotated coordinate
};

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

/// One rotary pair j over all neighbours at a distance (KVMerger, lemma 3.2). If two keys at
/// positions m and n are collinear after RoPE, their pairs before RoPE have cosine cos((m − n)θ_j),
/// exactly.
struct PairRotation {
  double predicted = 0.0;  // cos((m − n)θ_j), θ_j = θ^(−2j/d)
  double before = 0.0;     // mean cosine of the pairs before RoPE; NaN without neighbours
  double after = 0.0;      // mean cosine of the pairs as cached
  long neighbours = 0;     // number of neighbours in the means: neither pair is zero
  /// Share of the neighbours whose cosine before RoPE lies in the paper's interval [cos(m − n), 1],
  /// closed. The interval has a meaning only for |m − n| <= 3; beyond that cos is not monotone, and
  /// the share is NaN.
  double inside = 0.0;
};

/// keys [T,d] after RoPE, row = position; neighbours i and i + distance whose whole keys have a
/// cosine of at least `least_cosine`. [d/2], pairs as the model pairs coordinates. O(T·d), double.
/// Throws std::invalid_argument for a distance below 1, WorkError if RoPE cannot be undone.
std::vector<PairRotation> pair_rotations(const MatrixView& keys, const ModelInfo& model,
                                         int distance, double least_cosine = -1.0);

}  // namespace kvloupe
