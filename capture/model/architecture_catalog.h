#pragma once

#include <span>
#include <string_view>

#include "capture/model/config_reader.h"
#include "capture/model/model_config.h"

namespace kvloupe {

/// One model family: its name in config.json's "architectures", and how its config is read.
struct Architecture {
  std::string_view name;
  /// Fills everything but `architecture` and `text`. Throws FileError through the reader for
  /// options that the family's code does not support.
  ModelConfig (*parse)(const ConfigReader& reader);
};

/// Every family kvloupe runs, one line each.
std::span<const Architecture> architectures();

}  // namespace kvloupe
