#pragma once
// The catalogue of measures as text.

#include <string>

#include "analysis/replay/measure/measure_catalog.h"

namespace kvloupe {

/// "smaller", "larger", or "" where neither is.
std::string better_text(Better better);

/// docs/measures.md: every measure with formula, scope, source and the better direction.
std::string measures_markdown();

}  // namespace kvloupe
