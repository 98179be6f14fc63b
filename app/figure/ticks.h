#pragma once

#include <string>
#include <vector>

namespace kvloupe::figure {

/// A place on an axis, in data, and what it reads.
struct Tick {
  double value = 0.0;
  std::string label;
};

/// At most `most` round values (steps of 1, 2 or 5 times a power of ten) within the two ends, which
/// may come in either order. Empty where the ends are equal or no numbers.
std::vector<Tick> linear_ticks(double first, double last, int most);

/// For axes of cells: whole numbers, the tick at the middle of its cell, i + 0.5.
std::vector<Tick> index_ticks(double first, double last, int most);

/// Powers of ten within two positive ends, thinned to at most `most`; where there are fewer than
/// two, 1, 2 and 5 times powers.
std::vector<Tick> log_ticks(double first, double last, int most);

/// `digits` significant digits, a real minus sign, thin spaces in thousands, 1.2 × 10⁻⁵ where it is
/// shorter. "–" for NaN.
std::string format_number(double value, int digits = 3);

/// A whole number with thin spaces in thousands.
std::string format_count(long value);

/// 10ⁿ.
std::string power_of_ten(int exponent);

}  // namespace kvloupe::figure
