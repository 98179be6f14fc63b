#pragma once

#include <string>

namespace kvloupe::window {

/// Three significant digits with a real minus sign: 0.123, −1.50, 12 300, 4.56e−7; "–" for NaN.
std::string three_digits(double value);
/// A count with thin spaces between thousands: 32 768.
std::string count_text(long value);
/// "token 7", "tokens 0–1 924"; both ends included.
std::string tokens_text(long first, long last);

}  // namespace kvloupe::window
