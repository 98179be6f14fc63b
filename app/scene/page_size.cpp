#include "app/scene/page_size.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "analysis/base/core/error.h"

namespace kvloupe::figure {

namespace {

/// A decimal number at the front of `text`, which is then cut off; −1 where there is none.
double take_number(std::string_view& text) {
  double value = -1.0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc()) return -1.0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

PageSize parse_page_size(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return UsageError(fmt::format("--size {}: {}; write 85x60mm or 1600x900px", text, why));
  };
  std::string_view rest = text;
  const double width = take_number(rest);
  const bool cross = width >= 0 && (take(rest, "x") || take(rest, "×"));
  const double height = cross ? take_number(rest) : -1.0;
  if (height < 0) throw wrong("is not a size");
  PageSize size;
  if (rest == "px") {
    size.in_pixels = true;
  } else if (rest != "mm") {
    throw wrong(rest.empty() ? "has no unit" : fmt::format("'{}' is not a unit", rest));
  }
  const double least = size.in_pixels ? 200.0 : 20.0;
  const double most = size.in_pixels ? 16000.0 : 1000.0;
  if (width < least || height < least)
    throw wrong(fmt::format("a side is less than {} {}", least, rest));
  if (width > most || height > most)
    throw wrong(fmt::format("a side is more than {} {}", most, rest));
  if (size.in_pixels) {
    size.pixels_per_point = 192.0 / 72.0;
    size.width = width / size.pixels_per_point;
    size.height = height / size.pixels_per_point;
  } else {
    size.width = width * kPointsPerMillimetre;
    size.height = height * kPointsPerMillimetre;
  }
  return size;
}

}  // namespace kvloupe::figure
