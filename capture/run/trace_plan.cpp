#include "capture/run/trace_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/base/core/error.h"
#include "analysis/base/text/utf8.h"
#include "analysis/trace/shared_weights.h"
#include "capture/checkpoint/weight_source.h"
#include "capture/model/load_transformer.h"
#include "capture/model/transformer.h"
#include "capture/run/model_description.h"

namespace kvloupe {

namespace {

bool stores_attention(AttentionStorage storage, const ModelInfo& model, int tokens) {
  return storage == AttentionStorage::full ||
         (storage == AttentionStorage::automatic &&
          attention_size(model, tokens) <= kMostAutomaticAttention);
}

/// Bytes of the texts of all token ids, as a trace stores them.
std::uint64_t vocabulary_text(const Tokenizer& tokenizer, const ModelInfo& model) {
  std::uint64_t bytes = 0;
  const std::int32_t known = std::min(tokenizer.size(), std::int32_t{model.vocab_size});
  for (std::int32_t id = 0; id < known; ++id) {
    bytes += spell_bytes(tokenizer.piece_bytes(id)).size();
  }
  return bytes;
}

/// How many different tokens the run has at most.
int most_different(std::span<const std::int32_t> ids, int generate, const ModelInfo& model) {
  const std::set<std::int32_t> known(ids.begin(), ids.end());
  return static_cast<int>(
      std::min(static_cast<std::int64_t>(known.size()) + generate, std::int64_t{model.vocab_size}));
}

}  // namespace

bool has_half_projections(const std::filesystem::path& model, const ModelConfig& config) {
  const std::shared_ptr<const WeightSource> weights = open_weights(model, config);
  for (const WeightShape& weight : weight_shapes(config)) {
    if (weight.name.ends_with(".o_proj.weight") && !weights->is_half(weight.name)) return false;
  }
  return true;
}

TracePlan plan_trace(const CaptureRequest& request, const ModelConfig& config,
                     const ModelInfo& model, const RunInfo& run, std::span<const std::int32_t> ids,
                     const Tokenizer* tokenizer, int probe_tokens, const WeightsPlace& weights) {
  TracePlan plan;
  plan.weights = weights;
  TraceWriterOptions& options = plan.options;
  options.store_f32 = request.storage == Storage::float32;
  options.half_output_weight =
      options.store_f32 && has_half_projections(request.model.path, config);
  options.store_attention = stores_attention(request.attention, model, run.tokens());
  options.top_k = static_cast<int>(std::min<std::int64_t>(kTopPredictions, config.vocab_size));
  if (weights) options.shared_weights = weights.form;
  options.layers = layer_attributes(config, read_sink_logits(request.model.path, config));
  plan.contents.lm_head =
      !weights && (request.lm_head || holds_lm_head(model, run.tokens(), options.store_f32));
  if (!plan.contents.lm_head && config.has_plain_residual()) {
    plan.contents.lm_head_rows =
        held_lm_head_rows(model, most_different(ids, request.generate, model));
  }
  if (tokenizer != nullptr) plan.contents.vocabulary_text = vocabulary_text(*tokenizer, model);
  plan.contents.probe_tokens = probe_tokens;
  plan.size = trace_size(model, run, options, plan.contents);
  if (weights && !weights.there)
    plan.size.shared_weights = weights_size(model, options.store_f32, options.half_output_weight);
  return plan;
}

void check_space(const CaptureRequest& request, const TracePlan& plan) {
  const TraceSize& size = plan.size;
  if (size.shared_weights > 0) {
    const std::filesystem::path folder = plan.weights.file.parent_path();
    const auto room = request.free_space(folder);
    if (room && *room < size.shared_weights) {
      throw FileError(plan.weights.file.string(),
                      fmt::format("needs {}, and {} are free there; free some space, or set "
                                  "XDG_CACHE_HOME to another folder",
                                  bytes_text(size.shared_weights), bytes_text(*room)));
    }
  }
  const auto free = request.free_space(request.target.parent_path());
  if (!free || *free >= size.total()) return;
  std::string smaller = "take a shorter prompt";
  if (request.generate > 0) smaller += " or a smaller --generate";
  if (size.attention > 0) smaller += ", or --attention none";
  if (request.lm_head) smaller += ", or leave --lm-head out";
  throw FileError(request.target.string(),
                  fmt::format("needs {}, and {} are free there; free some space, choose another "
                              "folder, or {}",
                              bytes_text(size.total()), bytes_text(*free), smaller));
}

}  // namespace kvloupe
