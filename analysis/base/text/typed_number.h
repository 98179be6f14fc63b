#pragma once
// Numbers that a person types: each text is read as a whole, or not at all.

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kvloupe {

/// A finite number of this type.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool good = error == std::errc() && stop == end && std::isfinite(value);
  return good ? std::optional(value) : std::nullopt;
}

/// Two of them around a character: "0:256", "1600x1000".
template <typename Number>
std::optional<std::pair<Number, Number>> numbers_around(char between, std::string_view text) {
  const std::size_t at = text.find(between, 1);
  if (at == std::string_view::npos) return std::nullopt;
  const auto first = number_in<Number>(text.substr(0, at));
  const auto second = number_in<Number>(text.substr(at + 1));
  return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

/// A block size: a number of tokens, or "all", which stands for `whole`.
inline std::optional<int> block_in(std::string_view text, int whole) {
  const auto tokens = text == "all" ? whole : number_in<int>(text).value_or(0);
  return tokens >= 1 && (tokens <= 1 << 30 || text == "all") ? std::optional(tokens) : std::nullopt;
}
inline std::string no_block(std::string_view text) {
  return "block '" + std::string(text) + "': write a number of tokens, at least 1, or all";
}

}  // namespace kvloupe
