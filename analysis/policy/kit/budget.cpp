#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "analysis/error.h"
#include "analysis/policy/kit/spec.h"

namespace kvloupe {

namespace {
constexpr double kMostPercent = 1e6;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UsageError("budget '" + std::string(text) + "': " + why +
                   "; write a count of entries such as 256, or a share of the prompt such as 25%");
}
}  // namespace

Budget parse_budget(std::string_view text) {
  std::string_view body = text;
  while (!body.empty() && body.front() == ' ') body.remove_prefix(1);
  while (!body.empty() && body.back() == ' ') body.remove_suffix(1);
  if (body.empty()) refuse(text, "is empty");
  const bool percent = body.back() == '%';
  if (percent) body.remove_suffix(1);
  const char* end = body.data() + body.size();
  if (percent) {
    double value = 0.0;
    const auto [stop, error] = std::from_chars(body.data(), end, value, std::chars_format::fixed);
    if (error != std::errc() || stop != end || !std::isfinite(value)) refuse(text, "not a number");
    if (value <= 0.0) refuse(text, "must be above 0");
    if (value > kMostPercent) refuse(text, "too large");
    return {Percent{value}};
  }
  long value = 0;
  const auto [stop, error] = std::from_chars(body.data(), end, value);
  if (error == std::errc::result_out_of_range && stop == end && body.front() != '-') {
    refuse(text, "too large");
  }
  if (error != std::errc() || stop != end) refuse(text, "not a whole number");
  if (value < 1) refuse(text, "must be at least 1");
  if (value > std::numeric_limits<int>::max()) refuse(text, "too large");
  return {value};
}

int Budget::resolve(int prompt_length) const {
  constexpr long kMost = std::numeric_limits<int>::max();
  if (const long* count = std::get_if<long>(&value)) {
    if (*count < 1 || *count > kMost) refuse(text(), "must be at least 1 and fit 32 bits");
    return static_cast<int>(*count);
  }
  const Percent& share = std::get<Percent>(value);
  if (!(share.value > 0.0) || share.value > kMostPercent) refuse(text(), "must be above 0");
  return static_cast<int>(std::clamp(share.of(prompt_length), 1L, kMost));
}

std::string Budget::text() const {
  if (const long* count = std::get_if<long>(&value)) return std::to_string(*count);
  return number_text(std::get<Percent>(value).value) + "%";
}

}  // namespace kvloupe
