#pragma once

#include <span>

#include "capture/model/config_reader.h"
#include "capture/model/family.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// Every family kvloupe runs, one entry each.
std::span<const Family> families();

/// Reads a config as its family says. Fills everything but `architecture` and `text`. Throws
/// FileError through the reader: a field that is missing or impossible, another activation than the
/// family's, a rotary scaling that is not known (see rope_scaling.h), partial rotation, layers with
/// and without a window in a family that has no such layers, quantised weights.
ModelConfig read_decoder(const ConfigReader& reader, const Family& family);

}  // namespace kvloupe
