#pragma once
// The decoder, for block prefill (one layer at a time, states in the open) and for training (whole
// sequences, differentiable). Shapes: b sequences, m tokens, D hidden size, Hq query heads, Hk
// key-value heads, d head dimension. Nothing here writes into a tensor it was given.

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "capture/model/model_config.h"
#include "capture/model/projection.h"

namespace kvloupe {

/// Name and shape of one weight, as in Hugging Face checkpoints.
struct WeightShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Every weight and bias a model of this config has, in a fixed order. Matrices are [out, in].
std::vector<WeightShape> weight_shapes(const ModelConfig& config);
/// Those of one layer.
std::vector<WeightShape> weight_shapes(const ModelConfig& config, std::int64_t layer);

class WeightSource;

/// Weights by their Hugging Face names.
using Weights = std::map<std::string, at::Tensor>;

/// Cosines and sines of the rotary angles at m positions, float32 [m,d], the second half of the
/// coordinates repeating the first.
struct Rotation {
  at::Tensor cosine;
  at::Tensor sine;
};

/// Rotates the pairs (j, j + d/2) of the last dimension, in float32; x [...,m,d].
at::Tensor rotate(const at::Tensor& x, const Rotation& rotation);

/// One layer's states, query and key after RoPE.
struct StateTensors {
  at::Tensor query;  // [b,Hq,m,d]
  at::Tensor key;    // [b,Hk,m,d]
  at::Tensor value;  // [b,Hk,m,d]
};

class Transformer {
 public:
  /// Uses the given weights, sharing their storage; their dtype and device are those of the
  /// computation (under autocast: of the parameters). Throws WorkError naming a weight that is
  /// missing or has another shape than weight_shapes() gives.
  Transformer(ModelConfig config, Weights weights);
  /// Takes a layer's weights from `source` when it is its turn, in `type`, and only one layer's are
  /// in memory; of the embedding and the output head some rows at a time. The results are those of
  /// the same weights in memory, bit by bit. For one thread. Throws what the source throws.
  Transformer(ModelConfig config, std::shared_ptr<const WeightSource> source, at::ScalarType type,
              at::Device device);

  const ModelConfig& config() const { return config_; }
  /// Whether weights are taken from their file when it is their turn.
  bool is_packed() const { return source_ != nullptr; }
  /// The dtype and device of the computation.
  const at::TensorOptions& options() const { return options_; }
  /// All weights; none of a packed model.
  const Weights& weights() const { return weights_; }
  const at::Tensor& weight(const std::string& name) const { return weights_.at(name); }
  /// The matrix that gives the logits, [vocab,D]: lm_head.weight, or the embedding if tied.
  at::Tensor head_weight() const;
  /// Its rows of these tokens: ids [n] int64 -> [n,D].
  at::Tensor head_rows(const at::Tensor& ids) const;
  /// W_O of a layer, [D, Hq·d]: columns h·d … (h+1)·d belong to query head h.
  at::Tensor output_weight(int layer) const;
  /// The weights of the norm before a layer's attention, [D].
  at::Tensor input_norm_weight(int layer) const;
  /// The weights of the last norm, [D].
  const at::Tensor& last_norm_weight() const { return last_norm_; }
  /// The factor of the logits before the softmax: 1/√d.
  double attention_scale() const;

  // --- the parts, in the order they are run
  /// ids [b,m] int64 -> [b,m,D].
  at::Tensor embed(const at::Tensor& ids) const;
  /// positions [m] int64. Angles in float64, tables in float32. For rotating queries and keys as
  /// the model does, stretched if its scaling stretches.
  Rotation rotation(const at::Tensor& positions) const;
  /// The angles alone, without stretching: for rotating states that were rotated before.
  Rotation turn(const at::Tensor& positions) const;
  /// Norm, projections, the heads' own norms if the model has them, and RoPE of one layer. hidden
  /// [b,m,D].
  StateTensors states(int layer, const at::Tensor& hidden, const Rotation& rotation) const;
  /// The rest of the layer: hidden [b,m,D] and the heads' attention outputs [b,Hq,m,d] ->
  /// hidden + W_O outputs, then the MLP added: [b,m,D].
  at::Tensor finish_layer(int layer, const at::Tensor& hidden, const at::Tensor& outputs) const;
  /// The last norm: hidden [b,m,D] -> the input of the output head, [b,m,D].
  at::Tensor last_norm(const at::Tensor& hidden) const;
  /// The last norm and the head: hidden [b,m,D] -> [b,m,vocab], in the weights' dtype.
  at::Tensor logits(const at::Tensor& hidden) const;

  // --- whole sequences, for training and for checks
  /// Called with each layer's states as they are computed.
  using StatesHook = std::function<void(int layer, const StateTensors& states)>;
  /// ids [b,m] int64, positions 0 … m−1, causal and within the model's window -> logits
  /// [b,m,vocab]. Differentiable with respect to every weight that asks for it.
  at::Tensor forward(const at::Tensor& ids, const StatesHook& hook = {}) const;

 private:
  struct LayerWeights {
    at::Tensor input_norm;
    Projection query, key, value;
    at::Tensor query_norm, key_norm;  // [d], if the model has them
    Projection output;
    at::Tensor mlp_norm;
    Projection gate, up, down;
  };
  LayerWeights gather(int layer, const std::function<at::Tensor(const std::string&)>& take) const;
  const LayerWeights& layer(int layer) const;
  /// Rows [first, end) of a packed model's weight, in the memory called `room` until that is used
  /// again.
  at::Tensor packed(const std::string& name, const std::vector<std::int64_t>& shape,
                    std::int64_t first, std::int64_t end, const std::string& room) const;
  /// The same of a matrix of [vocab,D].
  at::Tensor packed_rows(const std::string& name, std::int64_t first, std::int64_t end,
                         const std::string& room) const;
  /// The same of a matrix of [vocab,D], the rows of these ids: [ids.numel(),D].
  at::Tensor packed_rows(const std::string& name, const at::Tensor& ids) const;
  std::string head_name() const;

  ModelConfig config_;
  Weights weights_;
  at::TensorOptions options_;
  std::vector<LayerWeights> layers_;  // none of a packed model
  at::Tensor embedding_, last_norm_;
  std::shared_ptr<const WeightSource> source_;  // of a packed model
  mutable std::map<std::string, at::Tensor> rooms_;
  mutable LayerWeights expanded_;  // of the layer whose turn it is
  mutable int turn_ = -1;
  mutable at::Tensor output_;  // a layer's W_O that was asked for out of turn
  mutable int output_turn_ = -1;
};

/// Causal softmax rows of whole sequences, float32 [b,Hq,m,m]: row = query, oldest first. Each
/// query sees the last `window` keys up to its own; 0: all of them.
at::Tensor causal_attention(const StateTensors& states, double scale, std::int64_t window = 0);

}  // namespace kvloupe
