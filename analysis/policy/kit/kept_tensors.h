#pragma once

#include <string>

#include "analysis/policy/kit/kept_sets.h"

namespace kvloupe {

/// Reads the sets of one layer from a safetensors file (docs/sets.md). Throws FileError: missing,
/// unreadable, cut short, tensors of another type, shape or order.
KeptSets read_kept_tensors(const std::string& path, int layer);

}  // namespace kvloupe
