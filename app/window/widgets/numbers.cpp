#include "app/window/widgets/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "app/plot/ticks.h"

namespace kvloupe::window {

namespace {
constexpr const char* kMinus = "−";
}  // namespace

std::string count_text(long value) { return figure::format_count(value); }

std::string tokens_text(long first, long last) {
  return first == last ? fmt::format("token {}", count_text(first))
                       : fmt::format("tokens {}–{}", count_text(first), count_text(last));
}

std::string token_count_text(long count) { return figure::format_counted(count, "token"); }

std::string three_digits(double value) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  if (value == 0.0) return "0";
  const std::string sign = value < 0 ? kMinus : "";
  const double size = std::abs(value);
  const std::string scientific = fmt::format("{:.2e}", size);  // rounds, so that 9.999 is 10.0
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -3 || exponent > 5) {
    return fmt::format("{}{}e{}{}", sign, scientific.substr(0, scientific.find('e')),
                       exponent < 0 ? kMinus : "", std::abs(exponent));
  }
  if (exponent >= 3) {
    const double unit = std::pow(10.0, exponent - 2);
    return sign + count_text(std::lround(std::round(size / unit) * unit));
  }
  return sign + fmt::format("{:.{}f}", size, std::max(0, 2 - exponent));
}

std::string whole_numbers(const std::string& value,
                          const std::function<bool(const std::string&)>& has_room) {
  if (has_room(value)) return value;
  const std::size_t end = std::min(value.find(" /"), value.find(" ("));
  const std::string first = value.substr(0, end) + " …";
  return end != std::string::npos && has_room(first) ? first : "…";
}

std::string run_text(const RunInfo& run) {
  std::string text = run.dtype;
  if (!run.device.empty()) text += (text.empty() ? "on " : " on ") + run.device;
  if (!text.empty()) text += ", ";
  return text + (!run.closed_loop() ? "full cache" : run.policy);
}

}  // namespace kvloupe::window
