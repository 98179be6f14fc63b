#pragma once

#include <string>

#include "analysis/trace/model_info.h"

namespace kvloupe::window {

/// How the model was run, as far as the trace says (a trace by another tool may not): "f32 on cpu,
/// full cache".
std::string run_text(const RunInfo& run);

}  // namespace kvloupe::window
