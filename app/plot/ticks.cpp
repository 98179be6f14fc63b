#include "app/plot/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::figure {

namespace {

constexpr const char* minus = "−";
constexpr const char* thin_space = "\u2009";

/// Groups the digits before the point by three where there are five or more, as in print.
std::string grouped(std::string digits) {
  std::string sign;
  if (!digits.empty() && digits.front() == '-') {
    sign = minus;
    digits.erase(0, 1);
  }
  const std::size_t point = std::min(digits.find('.'), digits.size());
  if (point >= 5) {
    for (std::size_t at = point; at > 3;) {
      at -= 3;
      digits.insert(at, thin_space);
    }
  }
  return sign + digits;
}

/// The smallest of 1, 2, 5 × 10ⁿ that is at least `step`.
double round_step(double step) {
  const double power = std::pow(10.0, std::floor(std::log10(step)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= step * (1 - 1e-9)) return factor * power;
  }
  return 10.0 * power;
}

std::string with_decimals(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') text.erase(0, 1);
  return grouped(text);
}

}  // namespace

std::string format_counted(long count, const std::string& thing) {
  return format_count(count) + " " + thing + (count == 1 ? "" : "s");
}

std::string format_tokens(long first, long last) {
  if (first == last) return "token " + format_count(first);
  return "tokens " + format_count(first) + " to " + format_count(last);
}

std::string power_of_ten(int exponent) {
  static constexpr const char* digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string text = "10";
  if (exponent < 0) text += "⁻";
  for (const char c : std::to_string(std::abs(exponent))) text += digits[c - '0'];
  return text;
}

std::string format_count(long value) { return grouped(std::to_string(value)); }

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : std::string(minus) + "∞";
  if (value == 0.0) return "0";
  // Exponent after rounding: 9.996 becomes 10.0.
  const std::string rounded = fmt::format("{:.{}e}", value, digits - 1);
  const int exponent = std::stoi(rounded.substr(rounded.find('e') + 1));
  if (exponent >= -4 && exponent < 6) {
    return with_decimals(value, std::max(0, digits - 1 - exponent));
  }
  std::string mantissa = rounded.substr(0, rounded.find('e'));
  if (mantissa.find('.') != std::string::npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return grouped(mantissa) + thin_space + "×" + thin_space + power_of_ten(exponent);
}

std::vector<Tick> linear_ticks(double first, double last, int most) {
  std::vector<Tick> ticks;
  const double low = std::min(first, last);
  const double high = std::max(first, last);
  if (!(high > low) || !std::isfinite(high - low) || most < 1) return ticks;
  double step = round_step((high - low) / most / 4.0);  // too fine; the finest that fits follows
  const auto count = [&] {
    return std::floor(high / step + 1e-9) - std::ceil(low / step - 1e-9) + 1;
  };
  while (count() > most) step = round_step(step * 1.5);
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 12);
  const double top = std::max(std::abs(low), std::abs(high));
  const bool powers = top >= 1e6 || top < 1e-4;
  // As many digits as tell neighbours apart.
  const int digits = 1 + std::max(0, static_cast<int>(std::floor(std::log10(top) + 1e-9) -
                                                      std::floor(std::log10(step) + 1e-9)));
  for (double i = std::ceil(low / step - 1e-9); i <= std::floor(high / step + 1e-9); i += 1.0) {
    const double value = i == 0.0 ? 0.0 : i * step;
    ticks.push_back(
        {value, powers ? format_number(value, digits) : with_decimals(value, decimals)});
  }
  return ticks;
}

std::vector<Tick> index_ticks(double first, double last, int most) {
  std::vector<Tick> ticks;
  const double low = std::ceil(std::min(first, last) - 1e-9);
  const double high = std::floor(std::max(first, last) + 1e-9) - 1;  // the last whole cell
  if (!(high >= low) || most < 1) return ticks;
  double step = 1.0;
  while (std::floor(high / step) - std::ceil(low / step) + 1 > most) step = round_step(step * 1.5);
  for (double i = std::ceil(low / step) * step; i <= high + 1e-9; i += step) {
    ticks.push_back({i + 0.5, format_count(std::lround(i))});
  }
  return ticks;
}

std::vector<Tick> log_ticks(double first, double last, int most) {
  std::vector<Tick> ticks;
  const double low = std::min(first, last);
  const double high = std::max(first, last);
  if (!(low > 0) || !(high > low) || !std::isfinite(high) || most < 1) return ticks;
  const int bottom = static_cast<int>(std::ceil(std::log10(low) - 1e-9));
  const int top = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  if (top - bottom >= 1) {
    int step = 1;
    while ((top - bottom) / step + 1 > most) ++step;
    // Counted from the top, where the eye is.
    for (int e = top; e >= bottom; e -= step) {
      ticks.push_back({std::pow(10.0, e), e == 0 ? "1" : e == 1 ? "10" : power_of_ten(e)});
    }
    std::reverse(ticks.begin(), ticks.end());
    return ticks;
  }
  const int from = static_cast<int>(std::floor(std::log10(low)));
  for (int e = from; e <= from + 2; ++e) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, e);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) {
        ticks.push_back({value, format_number(value, 1)});
      }
    }
  }
  if (ticks.size() < 2) return linear_ticks(low, high, most);
  while (static_cast<int>(ticks.size()) > most) ticks.erase(ticks.begin());
  return ticks;
}

}  // namespace kvloupe::figure
