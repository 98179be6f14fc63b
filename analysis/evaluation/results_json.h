#pragma once
// What the readers of results files share: a bounded, defensive reading of JSON. Private to
// analysis/evaluation.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace kvloupe::results {

using Json = nlohmann::json;

/// A value that is not as it should be; what() continues "run 3 ": "has no \"depth\"".
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The whole file. Throws FileError: missing, too large, not JSON (truncated, foreign), nested too
/// deeply.
Json read_json(const std::filesystem::path& path);

/// The number of a value between two ends; a truth value is 0 or 1. `name` is for the error. These
/// all throw Wrong.
double number_in(const Json& json, const char* name, double low, double high);
/// A member that must be there and be such a number.
double number(const Json& object, const char* name, double low, double high);
/// One that may be missing or null: NaN.
double optional_number(const Json& object, const char* name, double low, double high);
/// A text that is not empty.
std::string word(const Json& object, const char* name);
/// A text that may be missing.
std::string optional_word(const Json& object, const char* name);
/// A member that must be an object, or an array.
const Json& object_in(const Json& object, const char* name);
const Json& array_in(const Json& object, const char* name);

}  // namespace kvloupe::results
