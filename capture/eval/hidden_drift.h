#pragma once

#include <cstdint>
#include <vector>

#include "analysis/evaluation/evaluation.h"
#include "capture/model/transformer.h"

namespace kvloupe {

/// The outputs of each layer of a model for some tokens of a sequence, in the model's dtype and in
/// main memory.
class HiddenStates {
 public:
  /// For `count` tokens from `first` on.
  HiddenStates(const Transformer& model, int first, int count);
  /// Their size in bytes.
  static std::int64_t bytes(const Transformer& model, int count);

  /// Keeps a layer's output, hidden [1,m,D], for the tokens from `first` on; tokens outside its own
  /// range are ignored.
  void keep(int layer, int first, const at::Tensor& hidden);

  int first() const { return first_; }
  int count() const { return static_cast<int>(states_.size(1)); }
  /// For m tokens from `first` on, all in its own range: [m,D].
  at::Tensor rows(int layer, int first, int m) const;

 private:
  int first_;
  at::Tensor states_;  // [L,count,D]
};

/// How far a run's hidden states h′ are from those of the full cache's run of the same tokens, h
/// (after CriticalKV, figure 6), after each layer and after the last norm (the input of the output
/// head). Per token: ‖h′ − h‖₂ / ‖h‖₂ and 1 − cos(h′, h), in double precision.
class HiddenDrift {
 public:
  /// Both must outlive it.
  HiddenDrift(const Transformer& model, const HiddenStates& full);

  /// Compares a layer's output, hidden [1,m,D], for the tokens from `first` on; tokens outside the
  /// full run's range are ignored.
  void add(int layer, int first, const at::Tensor& hidden);

  /// Writes the means over the full run's tokens into the run's hidden states' distances, with six
  /// significant digits; tokens that were never added count as equal.
  void enter_means(EvaluationRun& run) const;

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
