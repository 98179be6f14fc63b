#pragma once

#include <span>
#include <vector>

#include "analysis/matrix.h"
#include "analysis/trace/model_info.h"

namespace kvloupe {

/// Rotary position embedding of one model's keys: pair j of a key at position p is turned by the
/// angle p·θ^(−2j/d), or what the model's scaling makes of it (see rope_scaling.h). Lengths stay:
/// of a model whose rotation stretches keys, keys that are turned back are stretched all the same.
class Rope {
 public:
  /// Throws WorkError where the model has no rope_theta, an odd head dimension, or a scaling or a
  /// partial rotation that is not known here.
  explicit Rope(const ModelInfo& model);

  /// Turns a key [d] by so many positions; by minus its own, the rotation is undone. Computed in
  /// double.
  void turn(std::span<float> key, double positions) const { turn_pairs(key, positions); }
  void turn(std::span<double> key, double positions) const { turn_pairs(key, positions); }

  /// Pair j: the two coordinates that turn together, and the angle of one position.
  struct Pair {
    Eigen::Index first = 0, second = 0;
    double frequency = 0.0;  // θ^(−2j/d) where nothing is scaled
  };
  std::size_t pairs() const { return frequencies_.size(); }
  Pair pair(std::size_t j) const;

 private:
  template <typename Number>
  void turn_pairs(std::span<Number> key, double positions) const;

  std::vector<double> frequencies_;  // [d/2]
  bool halves_;
};

}  // namespace kvloupe
