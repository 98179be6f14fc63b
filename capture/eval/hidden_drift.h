#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "capture/model/transformer.h"

namespace kvloupe {

/// What leaves each layer of a model for some tokens of a sequence, in the model's own dtype and in
/// the computer's memory.
class HiddenStates {
 public:
  /// Of `count` tokens from `first` on.
  HiddenStates(const Transformer& model, int first, int count);
  /// What they take.
  static std::int64_t bytes(const Transformer& model, int count);

  /// Keeps what leaves a layer, hidden [1,m,D], of the tokens from `first` on; others than its own
  /// tokens are passed over.
  void keep(int layer, int first, const at::Tensor& hidden);

  int first() const { return first_; }
  int count() const { return static_cast<int>(states_.size(1)); }
  /// Of m tokens from `first` on, all of them its own: [m,D].
  at::Tensor rows(int layer, int first, int m) const;

 private:
  int first_;
  at::Tensor states_;  // [L,count,D]
};

/// How far a run's hidden states h′ are from those of the full cache's run of the same tokens, h
/// (after CriticalKV, figure 6), after each layer and after the last norm, which is what enters the
/// output head. Per token: ‖h′ − h‖₂ / ‖h‖₂ and 1 − cos(h′, h), in double precision.
class HiddenDrift {
 public:
  /// Both must outlive it.
  HiddenDrift(const Transformer& model, const HiddenStates& full);

  /// Compares what leaves a layer, hidden [1,m,D], of the tokens from `first` on; others than those
  /// of the full run are passed over.
  void add(int layer, int first, const at::Tensor& hidden);

  /// Means over the full run's tokens; tokens never added count as equal. `hidden_distance` and
  /// `hidden_cosine_distance` of [L], `normed_distance` and `normed_cosine_distance` of what enters
  /// the head. Six significant digits.
  nlohmann::ordered_json means() const;

 private:
  struct Sums {
    double distance = 0.0, cosine = 0.0;
    void add(const at::Tensor& other, const at::Tensor& full);  // [m,D] each
  };
  const Transformer& model_;
  const HiddenStates& full_;
  std::vector<Sums> layers_;  // [L]
  Sums normed_;
};

}  // namespace kvloupe
