#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {

/// The longest context and window that a config may have, in tokens; no model exceeds it.
inline constexpr std::int64_t kLongestContext = (std::int64_t{1} << 31) - 1;

/// Parses a config: a JSON object with limited depth. `kind` describes `where` in errors ("a
/// model's config"). Throws FileError.
nlohmann::json parse_config_object(const std::string& text, const std::string& where,
                                   const std::string& kind);

/// Reads fields of one config.json with checked types and ranges; shared by the architectures.
/// Every method throws FileError "PATH: field: what is wrong; what to do". A null counts as absent.
/// Notes which fields are read.
class ConfigReader {
 public:
  ConfigReader(const nlohmann::json& root, std::string where);

  /// Whether the field exists, also if it is null.
  bool has(const char* field) const;
  /// A required integer in [1, largest]; no model has sizes beyond `largest`.
  std::int64_t size(const char* field, std::int64_t largest) const;
  /// The same, or `fallback` if absent.
  std::int64_t size_or(const char* field, std::int64_t largest, std::int64_t fallback) const;
  /// A finite number greater than zero, or `fallback` if absent.
  double positive_or(const char* field, double fallback) const;
  bool flag_or(const char* field, bool fallback) const;
  std::string word_or(const char* field, const std::string& fallback) const;
  /// A token id, or nothing if absent.
  std::optional<std::int64_t> token(const char* field) const;
  /// One token id or a list of them; empty if absent.
  std::vector<std::int64_t> tokens(const char* field) const;
  /// The object or list, or nullptr if absent.
  const nlohmann::json* find(const char* field) const;

  /// Refuses every field that was not read, unless it is null or known to change no computation
  /// (config_fields.cpp).
  void refuse_others() const;

  [[noreturn]] void fail(const std::string& problem) const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& root_;
  std::string where_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace kvloupe
