#pragma once

#include <ATen/ATen.h>

#include <map>
#include <vector>

#include "analysis/policy/kit/whole_pass.h"
#include "capture/model/transformer.h"

namespace kvloupe {

/// Numbers of a running model's layers for the tokens so far, equal to those of a trace of the
/// same run.
class RunningPass : public WholePass {
 public:
  RunningPass(const Transformer& model, const ModelInfo& info);

  std::span<const float> residual_change(int layer) const override;
  void will_ask(int layers) override;

  /// A layer's changes of the next tokens, as ResidualChanges says.
  void add_changes(int layer, std::span<const float> changes);
  /// A layer's states of the next tokens as stored, float32 on the CPU, dense: [Hq,m,d], [Hk,m,d].
  void add_states(int layer, const at::Tensor& query, const at::Tensor& key);

 protected:
  const std::vector<AttendingLayer>& attending() const override { return attending_; }
  Matrix queries(int layer, int token) const override;
  MatrixView keys(int layer, int head) const override;

 private:
  /// A layer whose attention somebody asks for.
  struct Layer {
    at::Tensor query;                      // of the last block
    int end = 0;                           // tokens so far
    std::vector<std::vector<float>> keys;  // [Hk] of [T so far,d]
    int width = 0;
  };
  std::vector<AttendingLayer> attending_;
  std::vector<std::vector<float>> changes_;  // [L] of [T so far]
  std::map<int, Layer> asked_;
};

}  // namespace kvloupe
