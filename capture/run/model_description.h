#pragma once

#include <filesystem>

#include "analysis/trace/model_info.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// A model as a trace describes it, named after its folder.
ModelInfo describe_model(const ModelConfig& config, const std::filesystem::path& folder);

}  // namespace kvloupe
