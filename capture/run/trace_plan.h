#pragma once

#include <cstdint>
#include <span>

#include "analysis/trace/trace_size.h"
#include "capture/model/model_config.h"
#include "capture/run/capture.h"
#include "capture/run/model_weights.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

inline constexpr int kTopPredictions = 5;  // stored per token

/// The contents of a run's trace, decided before the model is loaded.
struct TracePlan {
  TraceWriterOptions options;  // without the model's fingerprint
  TraceContents contents;
  TraceSize size;
  WeightsPlace weights;  // not empty: the trace takes its weights from there
};

/// Whether all output projections are float16 in the checkpoint: then they are float16 in the
/// trace, too, whatever the states are.
bool has_half_projections(const std::filesystem::path& model, const ModelConfig& config);

/// `ids`: the tokens that are known before the run; `tokenizer`: null without one; `probe_tokens`:
/// 0 without a probe; `weights`: empty where the trace holds them. Of the model's weights this
/// reads headers alone.
TracePlan plan_trace(const CaptureRequest& request, const ModelConfig& config,
                     const ModelInfo& model, const RunInfo& run, std::span<const std::int32_t> ids,
                     const Tokenizer* tokenizer, int probe_tokens, const WeightsPlace& weights);

/// Throws FileError, naming the target, if its file system has less room than this.
/// The same for the weights and the cache folder.
void check_space(const CaptureRequest& request, const TracePlan& plan);

}  // namespace kvloupe
