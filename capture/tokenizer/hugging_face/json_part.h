#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe {

/// One object of a tokenizer.json and its name in errors. Every read checks the type. Refers to the
/// parsed file, which must outlive it.
class JsonPart {
 public:
  /// Throws FileError if `value` is neither an object nor null.
  JsonPart(const nlohmann::json& value, std::string path, std::string name);

  /// FileError "PATH: NAME: PROBLEM".
  [[noreturn]] void fail(const std::string& problem) const;
  /// UnsupportedTokenizer "PATH: NAME WHAT is not supported; HINT".
  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const;

  bool is_null() const { return value_->is_null(); }
  const std::string& path() const { return path_; }
  const std::string& name() const { return name_; }
  /// The field's value; null if absent.
  const nlohmann::json& field(const char* name) const;
  /// The field as an object or null, with the name "NAME FIELD" or, at the top of the file,
  /// "FIELD".
  JsonPart part(const char* name) const;
  /// The objects of the array `name`. Fails if it is not an array or an element is not an object.
  std::vector<JsonPart> parts(const char* name) const;

  /// Required text.
  std::string text(const char* name) const;
  /// Absent or null: none.
  std::optional<std::string> text_if(const char* name) const;
  bool flag(const char* name, bool fallback) const;
  /// A whole number from 0 to `largest`.
  std::int64_t number(const char* name, std::int64_t largest) const;
  /// The kind of this part, its field "type".
  std::string type() const { return text("type"); }

 private:
  const nlohmann::json* value_;
  std::string path_;
  std::string name_;
};

/// How deeply a Sequence may nest; the parts are read and applied recursively.
constexpr int kDeepestSequence = 8;

}  // namespace kvloupe
