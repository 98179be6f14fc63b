#pragma once

#include <filesystem>

#include "analysis/trace/model_info.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// Describes a model for a trace; the name is that of its folder, or what its file says.
ModelInfo describe_model(const ModelConfig& config, const std::filesystem::path& folder);

}  // namespace kvloupe
