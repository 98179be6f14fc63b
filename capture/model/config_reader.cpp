#include "capture/model/config_reader.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "analysis/base/core/error.h"

namespace kvloupe {

namespace {
constexpr std::int64_t kLargestToken = (std::int64_t{1} << 31) - 1;
constexpr int kDeepestJson = 64;

/// Python writes and reads numbers that JSON does not have: Infinity, -Infinity and NaN. Here they
/// become texts, which no field that takes a number accepts.
std::string with_quoted_numbers(const std::string& text) {
  std::string quoted;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text && c == '\\' && i + 1 < text.size()) quoted += text[i++];
    if (c == '"') in_text = !in_text;
    const auto takes = [&](std::string_view word) {
      if (in_text || text.compare(i, word.size(), word) != 0) return false;
      quoted += '"' + std::string(word) + '"';
      i += word.size() - 1;
      return true;
    };
    if (takes("-Infinity") || takes("Infinity") || takes("NaN")) continue;
    quoted += text[i];
  }
  return quoted;
}
}  // namespace

nlohmann::json parse_config_object(const std::string& text, const std::string& where,
                                   const std::string& kind) {
  // The code walks parts of the tree recursively, so the depth is bounded before the tree is built.
  const auto check = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kDeepestJson) throw FileError(where, "is nested too deeply for " + kind);
    return true;
  };
  nlohmann::json root = nlohmann::json::parse(text, check, /*allow_exceptions=*/false);
  if (root.is_discarded()) {
    root = nlohmann::json::parse(with_quoted_numbers(text), check, /*allow_exceptions=*/false);
  }
  if (root.is_discarded()) throw FileError(where, "is not valid JSON; is the download complete?");
  if (!root.is_object()) {
    throw FileError(where, "is not " + kind + " (a JSON object is expected)");
  }
  return root;
}

ConfigReader::ConfigReader(const nlohmann::json& root, std::string where)
    : root_(root), where_(std::move(where)) {}

void ConfigReader::fail(const std::string& problem) const { throw FileError(where_, problem); }

bool ConfigReader::has(const char* field) const { return root_.contains(field); }

const nlohmann::json* ConfigReader::find(const char* field) const {
  read_.insert(field);
  const auto found = root_.find(field);
  return found == root_.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t ConfigReader::size(const char* field, std::int64_t largest) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) {
    fail(std::string("the field ") + field +
         " is missing; take the config.json that came with the model, or that transformers writes");
  }
  const bool fits = value->is_number_unsigned()
                        ? value->get<std::uint64_t>() >= 1 &&
                              value->get<std::uint64_t>() <= static_cast<std::uint64_t>(largest)
                        : false;
  if (!fits) {
    fail(std::string(field) + " must be a whole number from 1 to " + std::to_string(largest));
  }
  return value->get<std::int64_t>();
}

std::int64_t ConfigReader::size_or(const char* field, std::int64_t largest,
                                   std::int64_t fallback) const {
  return find(field) == nullptr ? fallback : size(field, largest);
}

double ConfigReader::positive_or(const char* field, double fallback) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
    fail(std::string(field) + " must be a number greater than 0");
  }
  return value->get<double>();
}

bool ConfigReader::flag_or(const char* field, bool fallback) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(std::string(field) + " must be true or false");
  return value->get<bool>();
}

std::string ConfigReader::word_or(const char* field, const std::string& fallback) const {
  const nlohmann::json* value = find(field);
  if (value == nullptr) return fallback;
  if (!value->is_string()) fail(std::string(field) + " must be a text");
  return value->get<std::string>();
}

std::vector<std::int64_t> ConfigReader::tokens(const char* field) const {
  const nlohmann::json* value = find(field);
  std::vector<std::int64_t> ids;
  if (value == nullptr) return ids;
  const auto add = [&](const nlohmann::json& id) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargestToken) {
      fail(std::string(field) + " must be a token id or a list of token ids");
    }
    ids.push_back(id.get<std::int64_t>());
  };
  if (value->is_array()) {
    for (const nlohmann::json& id : *value) add(id);
  } else {
    add(*value);
  }
  return ids;
}

std::optional<std::int64_t> ConfigReader::token(const char* field) const {
  const std::vector<std::int64_t> ids = tokens(field);
  if (ids.empty()) return std::nullopt;
  if (ids.size() > 1) fail(std::string(field) + " must be one token id");
  return ids.front();
}

}  // namespace kvloupe
