#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/spec.h"

namespace kvloupe {

namespace {
constexpr double kMostPercent = 1e6;
constexpr double kMostBudgetBytes = 1e15;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw UsageError(
      "budget '" + std::string(text) + "': " + why +
      "; write a count of entries such as 256, a share of the prompt such as 25%, or bytes "
      "such as 12MB or 25%bytes");
}

struct ByteUnit {
  std::string_view name;
  double bytes;
};
/// The largest first, and a unit before another that ends it.
constexpr ByteUnit kByteUnits[] = {{"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"KiB", 1024.0},
                                   {"GB", 1e9},           {"MB", 1e6},        {"kB", 1e3},
                                   {"KB", 1e3},           {"B", 1.0}};

/// The number of a share or of bytes, above 0.
double positive_number(std::string_view text, std::string_view body) {
  while (!body.empty() && body.back() == ' ') body.remove_suffix(1);
  const char* end = body.data() + body.size();
  double value = 0.0;
  const auto [stop, error] = std::from_chars(body.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || stop != end || !std::isfinite(value)) refuse(text, "not a number");
  if (value <= 0.0) refuse(text, "must be above 0");
  return value;
}

std::string budget_bytes_text(double bytes) {
  for (const ByteUnit& unit : {ByteUnit{"GB", 1e9}, ByteUnit{"MB", 1e6}, ByteUnit{"kB", 1e3}}) {
    if (bytes >= unit.bytes) return number_text(bytes / unit.bytes) + std::string(unit.name);
  }
  return number_text(bytes) + "B";
}
}  // namespace

Budget parse_budget(std::string_view text) {
  std::string_view body = text;
  while (!body.empty() && body.front() == ' ') body.remove_prefix(1);
  while (!body.empty() && body.back() == ' ') body.remove_suffix(1);
  if (body.empty()) refuse(text, "is empty");
  constexpr std::string_view kOfBytes = "%bytes";
  if (body.ends_with(kOfBytes)) {
    body.remove_suffix(kOfBytes.size());
    const double share = positive_number(text, body);
    if (share > kMostPercent) refuse(text, "too large");
    return {ByteShare{share}};
  }
  for (const ByteUnit& unit : kByteUnits) {
    if (!body.ends_with(unit.name)) continue;
    body.remove_suffix(unit.name.size());
    const double bytes = std::round(positive_number(text, body) * unit.bytes);
    if (bytes < 1.0) refuse(text, "must be at least 1 byte");
    if (bytes > kMostBudgetBytes) refuse(text, "too large");
    return {Bytes{bytes}};
  }
  if (body.back() == '%') {
    body.remove_suffix(1);
    const double share = positive_number(text, body);
    if (share > kMostPercent) refuse(text, "too large");
    return {Percent{share}};
  }
  const char* end = body.data() + body.size();
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
  if (in_bytes()) {
    throw UsageError("budget '" + text() +
                     "': bytes are not known here; write a count of entries such as 256, or a "
                     "share of the prompt such as 25%");
  }
  const Percent& share = std::get<Percent>(value);
  if (!(share.value > 0.0) || share.value > kMostPercent) refuse(text(), "must be above 0");
  return static_cast<int>(std::clamp(share.of(prompt_length), 1L, kMost));
}

int Budget::resolve_bytes(double full, int most, const std::function<double(int)>& bytes) const {
  const auto* share = std::get_if<ByteShare>(&value);
  const double wanted =
      share != nullptr ? full * share->percent / 100.0 : std::get<Bytes>(value).value;
  if (bytes(1) > wanted) {
    throw UsageError("budget '" + text() + "': less than the " +
                     budget_bytes_text(std::ceil(bytes(1))) +
                     " that one entry takes in all heads of the model; write at least this");
  }
  int fits = 1;
  for (int exceeds = most + 1; exceeds - fits > 1;) {
    const int middle = fits + (exceeds - fits) / 2;
    (bytes(middle) <= wanted ? fits : exceeds) = middle;
  }
  return fits;
}

std::string Budget::text() const {
  if (const auto* bytes = std::get_if<Bytes>(&value)) return budget_bytes_text(bytes->value);
  if (const auto* share = std::get_if<ByteShare>(&value)) {
    return number_text(share->percent) + "%bytes";
  }
  if (const long* count = std::get_if<long>(&value)) return std::to_string(*count);
  return number_text(std::get<Percent>(value).value) + "%";
}

}  // namespace kvloupe
