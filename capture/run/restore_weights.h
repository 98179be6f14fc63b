#pragma once

#include <filesystem>

#include "analysis/progress.h"
#include "capture/model/model_choice.h"

namespace kvloupe {

/// Writes the weights that a trace takes from the cache folder, if they are not there. Throws
/// FileError where the model is not the one that made the trace; does nothing for a trace that
/// holds its weights.
void restore_weights(const std::filesystem::path& trace, const ModelChoice& model,
                     Progress& progress);

}  // namespace kvloupe
