#pragma once
// The decoder, one layer at a time, its states in the open; differentiable. Shapes: b sequences, m
// tokens, D hidden size, Hq query heads, Hk key-value heads, d head dimension. Nothing here writes
// into a tensor it was given.

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

/// Name and shape of one weight, as in Hugging Face checkpoints of the family, or in those of Llama
/// and Qwen3-MoE where the family's files join weights (stored_weights.h).
struct WeightShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// Every weight and bias a model of this config has, in a fixed order. Matrices are [out, in].
std::vector<WeightShape> weight_shapes(const ModelConfig& config);
/// The weights of one layer.
std::vector<WeightShape> weight_shapes(const ModelConfig& config, std::int64_t layer);

/// The weight that holds a layer's sink logits, [Hq].
std::string sink_logits_name(std::int64_t layer);
/// Whether a weight of this name is one of an expert's.
bool is_of_expert(const std::string& name);

class WeightSource;

/// Weights by their Hugging Face names.
using Weights = std::map<std::string, at::Tensor>;

/// Cosines and sines of the rotary angles at m positions, float32 [m,d], the second half of the
/// coordinates repeating the first.
struct Rotation {
  at::Tensor cosine;
  at::Tensor sine;
};

/// The rotation of each layer, [L]; undefined tensors where a layer does not rotate.
using Rotations = std::vector<Rotation>;

/// Rotates the pairs (j, j + d/2) of the last dimension, in float32; x [...,m,d].
at::Tensor rotate(const at::Tensor& x, const Rotation& rotation);

/// One layer's states, query and key after RoPE.
struct StateTensors {
  at::Tensor query;  // [b,Hq,m,d]
  at::Tensor key;    // [b,Hk,m,d]
  at::Tensor value;  // [b,Hk,m,d]
};

/// How the queries of one layer attend.
struct AttentionRule {
  double scale = 1.0;       // of the products q·k
  double softcap = 0.0;     // c: logits are c·tanh(scale·q·k / c); 0: none
  std::int64_t window = 0;  // a query sees so many tokens, its own included; 0: all before it
  at::Tensor sink_logits;   // float32 [Hq]: one more logit of each row; undefined: none
};

class Transformer {
 public:
  /// Uses the given weights, sharing their storage; their dtype and device are those of the
  /// computation (under autocast: of the parameters). Throws WorkError naming a weight that is
  /// missing or has another shape than weight_shapes() gives.
  Transformer(ModelConfig config, Weights weights);
  /// Takes each layer's weights from `source` when the layer runs, in `type`; only one layer's are
  /// in memory. The embedding and the output head are read some rows at a time. The results equal
  /// those of weights in memory, bit by bit. For one thread. Throws what the source throws.
  Transformer(ModelConfig config, std::shared_ptr<const WeightSource> source, at::ScalarType type,
              at::Device device);

  const ModelConfig& config() const { return config_; }
  /// Whether weights are read from their file when their layer runs.
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
  /// The weights of the last norm as they multiply, [D].
  const at::Tensor& last_norm_weight() const { return last_norm_; }
  /// The factor of q·k in the logits, usually 1/√d.
  double attention_scale() const { return config_.attention_scale; }
  AttentionRule attention(int layer) const;

  // --- the parts, in the order they are run
  /// ids [b,m] int64 -> [b,m,D].
  at::Tensor embed(const at::Tensor& ids) const;
  /// positions [m] int64. Angles in float64, tables in float32. For rotating queries and keys as
  /// the model does, stretched if its scaling stretches.
  Rotations rotations(const at::Tensor& positions) const;
  /// The angles alone, without stretching: for rotating states that were rotated before.
  Rotations turns(const at::Tensor& positions) const;
  /// The input of a layer's attention, from hidden [b,m,D]: normed, if the layer has a norm there.
  at::Tensor attention_input(int layer, const at::Tensor& hidden) const;
  /// Norm, projections, the heads' own norms if the model has them, and RoPE of one layer. hidden
  /// [b,m,D].
  StateTensors states(int layer, const at::Tensor& hidden, const Rotations& rotations) const;
  /// The rest of the layer: hidden [b,m,D] and the heads' attention outputs [b,Hq,m,d] ->
  /// hidden + W_O outputs, then the MLP or the mixture of experts added, with the norms and factors
  /// that the family has there: [b,m,D].
  at::Tensor finish_layer(int layer, const at::Tensor& hidden, const at::Tensor& outputs) const;
  /// The same and, where another layer follows, that one's states: in one part of the model.
  struct PassedOn {
    at::Tensor hidden;
    StateTensors next;
  };
  PassedOn pass_on(int layer, const at::Tensor& hidden, const at::Tensor& outputs,
                   const Rotations& rotations) const;
  /// The last norm: hidden [b,m,D] -> the input of the output head, [b,m,D].
  at::Tensor last_norm(const at::Tensor& hidden) const;
  /// The last norm, the head, and the family's changes to the logits: hidden [b,m,D] ->
  /// [b,m,vocab], in the weights' dtype.
  at::Tensor logits(const at::Tensor& hidden) const;

 private:
  /// A gated MLP, or one of a layer's experts.
  struct Mlp {
    Projection gate, up, down;
  };
  /// Tensors that the model does not have are undefined.
  struct LayerWeights {
    at::Tensor input_norm;
    Projection query, key, value;
    at::Tensor query_norm, key_norm;  // [d], or [Hq·d] and [Hk·d]
    Projection output;
    at::Tensor attention_norm;  // of the attention's output
    at::Tensor mlp_norm;
    Mlp mlp;
    Projection router;
    std::vector<Mlp> experts;  // none of a packed model, whose experts are taken one by one
    at::Tensor mlp_output_norm;
  };
  /// A weight by its name.
  using Take = std::function<at::Tensor(const std::string&)>;
  LayerWeights gather(int layer, const Take& take) const;
  Mlp gather_mlp(const std::string& name, bool bias, const Take& take) const;
  /// A norm's weights as they multiply.
  at::Tensor norm_weight(const at::Tensor& stored) const;
  const LayerWeights& layer(int layer) const;
  Mlp expert(int layer, std::int64_t index) const;
  // The parts of the model that runs compute together, for the tokens at hand.
  StateTensors states(int layer, const at::Tensor& hidden, const Rotation& rotation) const;
  at::Tensor finished(int layer, const at::Tensor& hidden, const at::Tensor& outputs) const;
  at::Tensor logits_of(const at::Tensor& hidden) const;
  at::Tensor run_mlp(const Mlp& mlp, const at::Tensor& x) const;
  at::Tensor run_experts(int layer, const at::Tensor& x) const;
  at::Tensor add_to(const at::Tensor& hidden, const at::Tensor& output,
                    const at::Tensor& norm) const;
  Rotations rotations(const at::Tensor& positions, bool stretched) const;
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
  std::vector<at::Tensor> sink_logits_;         // [L] of float32 [Hq], or none
  std::shared_ptr<const WeightSource> source_;  // of a packed model
  mutable std::map<std::string, at::Tensor> rooms_;
  mutable LayerWeights expanded_;  // of the layer whose turn it is
  mutable int turn_ = -1;
  mutable at::Tensor output_;  // a layer's W_O that was asked for out of turn
  mutable int output_turn_ = -1;
};

}  // namespace kvloupe
