#include "analysis/trace/model_place.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace kvloupe {

namespace {

namespace fs = std::filesystem;

/// "-00001-of-00003.gguf": two numbers of five digits.
constexpr std::string_view kBetween = "-of-", kEnd = ".gguf";
constexpr std::size_t kDigits = 5;
constexpr std::size_t kSuffix = 1 + kDigits + kBetween.size() + kDigits + kEnd.size();

std::optional<int> number(std::string_view digits) {
  int value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, problem] = std::from_chars(digits.data(), end, value);
  if (problem != std::errc() || stopped != end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

bool is_gguf_file(const fs::path& place) {
  std::error_code error;
  if (!fs::is_regular_file(place, error)) return false;
  std::ifstream in(place, std::ios::binary);
  std::array<char, 4> magic{};
  return in.read(magic.data(), magic.size()) &&
         std::string_view(magic.data(), magic.size()) == "GGUF";
}

bool holds_model(const fs::path& place) {
  std::error_code error;
  return fs::is_regular_file(place / "config.json", error) || is_gguf_file(place);
}

std::vector<fs::path> gguf_parts(const fs::path& first) {
  const std::string name = first.filename().string();
  if (name.size() < kSuffix || !name.ends_with(kEnd)) return {first};
  const std::string_view suffix = std::string_view(name).substr(name.size() - kSuffix);
  if (suffix.front() != '-' || suffix.substr(1 + kDigits, kBetween.size()) != kBetween)
    return {first};
  const std::optional<int> part = number(suffix.substr(1, kDigits));
  const std::optional<int> count = number(suffix.substr(1 + kDigits + kBetween.size(), kDigits));
  if (!part || !count) return {first};
  if (*part != 1 || *count < 1) return {};
  const std::string stem = name.substr(0, name.size() - kSuffix);
  std::vector<fs::path> parts;
  for (int i = 1; i <= *count; ++i) {
    parts.push_back(first.parent_path() / fmt::format("{}-{:05}-of-{:05}.gguf", stem, i, *count));
  }
  return parts;
}

}  // namespace kvloupe
