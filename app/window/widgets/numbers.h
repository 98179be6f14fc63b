#pragma once

#include <functional>
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

/// A value such as "493 / 546" or "0.771 (7)", where it has room; else its first number, "493 …",
/// or only "…": a number that is cut off reads as another number.
std::string whole_numbers(const std::string& value,
                          const std::function<bool(const std::string&)>& has_room);

/// How the model was run, as far as the trace says (a trace by another tool may not): "f32 on cpu,
/// full cache".
std::string run_text(const RunInfo& run);

}  // namespace kvloupe::window
