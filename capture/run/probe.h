#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/policy/kit/probe_tables.h"
#include "capture/model/block_attention.h"
#include "capture/model/kv_cache.h"
#include "capture/model/transformer.h"
#include "capture/run/probe_kind.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// The tokens of a probe of this context. Throws UsageError for an empty context, and for `repeat`
/// without a tokenizer, which the words of the request need.
ProbeInfo make_probe(ProbeKind kind, std::span<const std::int32_t> context,
                     const Tokenizer* tokenizer);

/// One layer's states of some tokens of a probe, [1,H,m,d] and [m].
struct ProbeStates {
  int layer = 0;
  int first = 0;  // of the probe's tokens
  const StateTensors& states;
  const at::Tensor& input_norm;  // ‖h‖₂ of the attention's input, float32
};

/// The states of a probe that a model has run, as a trace stores them: for the policy in the
/// model's own cache.
class ModelProbe : public ProbeSource {
 public:
  ModelProbe(const Transformer& model, ModelInfo model_info, ProbeInfo probe, Storage storage);

  /// The context, from a cache that holds all of it. Once per layer, before the policy evicts.
  void take_context(int layer, const LayerCache& cache);
  void take(const ProbeStates& states);

  const ModelInfo& model() const override { return model_info_; }
  const std::optional<ProbeInfo>& info() const override { return probe_; }
  LayerProbe layer(int layer, LayerProbeParts parts) const override;
  std::string name() const override { return ""; }

 private:
  struct Layer {
    at::Tensor keys, values;                    // [Hk,E,d]
    std::vector<at::Tensor> queries, own_keys;  // of [H,m,d], in order
    std::vector<at::Tensor> input_norms;        // of [m]
  };
  const Transformer& model_;
  ModelInfo model_info_;
  std::optional<ProbeInfo> probe_;
  Storage storage_;
  std::vector<Layer> layers_;
};

class BlockRunner;

/// Runs every pass of a probe beside a sequence whose caches hold all of the context. Throws
/// Cancelled.
void run_probe(const BlockRunner& runner, const ProbeInfo& probe, const Progress& progress,
               const std::function<void(const ProbeStates&)>& on_states);

}  // namespace kvloupe
