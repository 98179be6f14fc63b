#pragma once

#include <string>
#include <vector>

namespace kvloupe::figure {

/// A place on an axis, in data, and its label.
struct Tick {
  double value = 0.0;
  std::string label;
};

/// At most `most` round values (steps of 1, 2 or 5 times a power of ten) between the two ends,
/// which may come in either order. Empty if the ends are equal or not finite.
std::vector<Tick> linear_ticks(double first, double last, int most);

/// For axes of cells: whole numbers, the tick at the middle of its cell, i + 0.5.
std::vector<Tick> index_ticks(double first, double last, int most);

/// Powers of ten between two positive ends, thinned to at most `most`; if there are fewer than two,
/// 1, 2 and 5 times powers of ten; between ends so close that there are fewer than two of these,
/// the values of a linear axis.
std::vector<Tick> log_ticks(double first, double last, int most);

/// `digits` significant digits, a real minus sign, thin spaces in thousands, 1.2 × 10⁻⁵ if that is
/// shorter. "–" for NaN.
std::string format_number(double value, int digits = 3);

/// A whole number with thin spaces in thousands.
std::string format_count(long value);

/// "1 token", "12 tokens": the number with its noun, in the plural with an s except for 1.
std::string format_counted(long count, const std::string& thing);

/// "token 7", "tokens 0 to 1 924"; both ends included.
std::string format_tokens(long first, long last);

/// 10ⁿ.
std::string power_of_ten(int exponent);

}  // namespace kvloupe::figure
