#include "app/cli/share.h"

#include <fmt/format.h>

#include <charconv>

#include "analysis/error.h"

namespace kvloupe::cli {

double parse_share(const std::string& text, const char* verb, const char* what) {
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool percent = error == std::errc() && rest + 1 == end && *rest == '%';
  if (error != std::errc() || (rest != end && !percent))
    throw UsageError(fmt::format("{}: write a {} such as 5% or 0.05, not '{}'", verb, what, text));
  return percent ? value / 100.0 : value;
}

}  // namespace kvloupe::cli
