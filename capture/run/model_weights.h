#pragma once
// A model's output projections and output head in the cache folder, for traces that do not hold
// them (analysis/trace/shared_weights.h).

#include <filesystem>
#include <string>

#include "analysis/base/core/progress.h"
#include "analysis/trace/model_info.h"
#include "capture/model/block_attention.h"
#include "capture/model/model_choice.h"
#include "capture/model/transformer.h"

namespace kvloupe {

/// The place and form of a run's weights. Empty: its trace holds them itself.
struct WeightsPlace {
  std::filesystem::path file;
  std::string form;
  bool there = false;  // the file is there and is right

  explicit operator bool() const { return !file.empty(); }
};

/// The place for a model with this fingerprint. Empty where the fingerprint is, or where the cache
/// folder cannot be written to.
WeightsPlace weights_place(const ModelInfo& model, const std::string& fingerprint,
                           const std::string& dtype, Storage storage);

/// Writes the weights there, unless they are there. `half`: as TraceWriterOptions'
/// half_output_weight. Throws FileError; Cancelled through progress.
void keep_weights(const Transformer& model, const ModelInfo& info, const std::string& fingerprint,
                  const WeightsPlace& place, Storage storage, bool half, const Progress& progress);

/// Writes the weights that a trace takes from the cache folder, if they are not there. Throws
/// FileError where the model is not the one that made the trace; does nothing for a trace that
/// holds its weights.
void restore_weights(const std::filesystem::path& trace, const ModelChoice& model,
                     Progress& progress);

}  // namespace kvloupe
