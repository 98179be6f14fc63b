#pragma once

#include <string>

#include "analysis/plugin/kvloupe/policy_plugin.h"
#include "analysis/policy/kit/policy_catalog.h"

namespace kvloupe {

/// A score that a plugin registers as a line of the catalogue. Copies all text. Throws WorkError,
/// one line, where the score is not as the interface asks: another size, no name, a name that is
/// not valid, a parameter whose default is out of its range, ...
PolicyEntry plugin_entry(const std::string& file, const kvloupe_score& score);

}  // namespace kvloupe
