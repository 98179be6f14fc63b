#pragma once

#include <cstdint>
#include <span>

#include "analysis/trace/trace_size.h"
#include "capture/model/model_config.h"
#include "capture/run/capture.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

inline constexpr int kTopPredictions = 5;  // stored per token

/// The contents of a run's trace, decided before the model is loaded.
struct TracePlan {
  TraceWriterOptions options;  // without the model's fingerprint
  TraceContents contents;
  TraceSize size;
};

/// `ids`: the tokens that are known before the run; `tokenizer`: null without one; `probe_tokens`:
/// 0 without a probe. Of the model's weights this reads headers alone.
TracePlan plan_trace(const CaptureRequest& request, const ModelConfig& config,
                     const ModelInfo& model, const RunInfo& run, std::span<const std::int32_t> ids,
                     const Tokenizer* tokenizer, int probe_tokens);

/// Throws FileError, naming the target, if its file system has less room than this.
void check_space(const CaptureRequest& request, const TraceSize& size);

}  // namespace kvloupe
