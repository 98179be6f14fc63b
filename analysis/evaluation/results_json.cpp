#include "analysis/evaluation/results_json.h"

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include "analysis/error.h"

namespace kvloupe::results {

namespace {
constexpr std::uintmax_t kLargest = 256U << 20U;
constexpr int kDeepest = 32;  // levels of nesting: a hostile file's could end the stack

std::string read_text(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw FileError(path.string(), "does not exist");
  if (!std::filesystem::is_regular_file(path, error))
    throw FileError(path.string(), "is not a file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw FileError(path.string(), "cannot be read (" + error.message() + ")");
  if (size > kLargest)
    throw FileError(path.string(), "is larger than the results of an evaluation can be");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw FileError(path.string(), "cannot be read; check its permissions");
  return std::move(text).str();
}

const Json& member(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) throw Wrong(fmt::format("has no \"{}\"", name));
  return *found;
}
}  // namespace

Json read_json(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  bool too_deep = false;
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > kDeepest;
        return !too_deep;
      },
      false);
  if (json.is_discarded() || too_deep) {
    throw FileError(path.string(),
                    "is not valid JSON (truncated?); run the evaluation again, or choose another "
                    "file");
  }
  return json;
}

double number_in(const Json& json, const char* name, double low, double high) {
  double value = std::numeric_limits<double>::quiet_NaN();
  if (json.is_boolean()) {
    value = json.get<bool>() ? 1.0 : 0.0;
  } else if (json.is_number()) {
    value = json.get<double>();
  }
  if (!(value >= low && value <= high))
    throw Wrong(fmt::format("has a \"{}\" outside the allowed range", name));
  return value;
}

double number(const Json& object, const char* name, double low, double high) {
  return number_in(member(object, name), name, low, high);
}

double optional_number(const Json& object, const char* name, double low, double high) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return std::numeric_limits<double>::quiet_NaN();
  return number_in(*found, name, low, high);
}

std::string word(const Json& object, const char* name) {
  std::string text = optional_word(object, name);
  if (text.empty()) throw Wrong(fmt::format("has no text \"{}\"", name));
  return text;
}

std::string optional_word(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json& object_in(const Json& object, const char* name) {
  const Json& found = member(object, name);
  if (!found.is_object()) throw Wrong(fmt::format("has a \"{}\" that is not an object", name));
  return found;
}

const Json& array_in(const Json& object, const char* name) {
  const Json& found = member(object, name);
  if (!found.is_array()) throw Wrong(fmt::format("has a \"{}\" that is not a list", name));
  return found;
}

}  // namespace kvloupe::results
