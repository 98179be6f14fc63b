#pragma once

#include <string>

#include "analysis/trace/model_info.h"

namespace kvloupe::window {

/// Three significant digits with a real minus sign: 0.123, −1.50, 12 300, 4.56e−7; "–" for NaN.
std::string three_digits(double value);
/// A count with thin spaces between thousands: 32 768.
std::string count_text(long value);
/// "token 7", or "tokens 7–9": both included.
std::string tokens_text(long first, long last);
/// "1 token", "1 900 tokens".
std::string token_count_text(long count);

/// How the model was run, as far as the trace says (a trace by another tool may not): "f32 on cpu,
/// full cache".
std::string run_text(const RunInfo& run);

}  // namespace kvloupe::window
