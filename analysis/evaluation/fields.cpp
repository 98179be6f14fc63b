#include "analysis/evaluation/fields.h"

#include <fstream>
#include <sstream>
#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/text/unknown.h"

namespace kvloupe::results {

namespace {
constexpr std::uintmax_t kLargest = 256U << 20U;
constexpr int kDeepest = 32;  // levels of nesting: a hostile file's could end the stack
// Members of one object, which are found one after the other: a hostile file's could take hours.
constexpr std::size_t kMostMembers = 50'000;

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
}  // namespace

Json read_json(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  bool refused = false;
  std::vector<std::size_t> members(1);  // of the objects around the present place
  Json json = Json::parse(
      text,
      [&](int depth, Json::parse_event_t event, Json&) {
        const auto level = static_cast<std::size_t>(depth);
        if (event == Json::parse_event_t::object_start) {
          members.resize(level + 2);
          members[level + 1] = 0;
        }
        refused = refused || depth > kDeepest ||
                  (event == Json::parse_event_t::key && ++members.at(level) > kMostMembers);
        return !refused;
      },
      false);
  if (json.is_discarded() || refused) {
    throw FileError(
        path.string(),
        text.starts_with("\x89HDF")
            ? "is not valid JSON but an HDF5 file, such as a trace; give results"
            : "is not valid JSON (truncated?); run the evaluation again, or choose another file");
  }
  return json;
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

double number_in(const Json& json, const char* name, double low, double high) {
  double value = kUnknown;
  if (json.is_boolean()) {
    value = json.get<bool>() ? 1.0 : 0.0;
  } else if (json.is_number()) {
    value = json.get<double>();
  }
  if (!(value >= low && value <= high))
    throw Wrong(fmt::format("has a \"{}\" outside the allowed range", name));
  return value;
}

double whole_in(const Json& json, const char* name, double low, double high) {
  const double value = number_in(json, name, low, high);
  if (value != std::trunc(value))
    throw Wrong(fmt::format("has a \"{}\" that is not a whole number", name));
  return value;
}

Fields::Fields(const Json& object, const char* what) : from_(&object) {
  if (!object.is_object()) throw Wrong(fmt::format("has a \"{}\" that is not an object", what));
}

const Json* Fields::find(const char* name) const {
  const auto found = from_->find(name);
  return found == from_->end() ? nullptr : &*found;
}

const Json& Fields::member(const char* name) const {
  const Json* found = find(name);
  if (found == nullptr) throw Wrong(fmt::format("has no \"{}\"", name));
  return *found;
}

const Json& Fields::array(const char* name) const {
  const Json& found = member(name);
  if (!found.is_array()) throw Wrong(fmt::format("has a \"{}\" that is not a list", name));
  return found;
}

void Fields::text(const char* name, std::string& value, Missing missing) {
  if (!reads()) {
    if (missing != not_written || !value.empty()) write(name) = value;
    return;
  }
  const Json* found = find(name);
  value = found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
  if (missing == refused && value.empty()) throw Wrong(fmt::format("has no text \"{}\"", name));
}

void Fields::either(const char* name, bool& second, const char* first_word, const char* second_word,
                    Missing missing) {
  std::string said = second ? second_word : first_word;
  text(name, said);
  second = said == second_word;
  if (missing == refused && !second && said != first_word) {
    throw Wrong(
        fmt::format("has an unknown {}; known are {} and {}", name, first_word, second_word));
  }
}

void Fields::truth(const char* name, bool& value) {
  if (!reads()) {
    write(name) = value;
    return;
  }
  const Json* found = find(name);
  if (found == nullptr || !found->is_boolean())
    throw Wrong(fmt::format("has no true or false \"{}\"", name));
  value = found->get<bool>();
}

void Fields::number(const char* name, double& value, double low, double high, Missing missing) {
  if (!reads()) {
    if (missing != not_written || !std::isnan(value))
      write(name) = std::isfinite(value) ? Json(value) : Json();
    return;
  }
  const Json* found = missing == refused ? &member(name) : find(name);
  const bool none = missing != refused && (found == nullptr || found->is_null());
  value = none ? kUnknown : number_in(*found, name, low, high);
}

void Fields::numbers(const char* name, std::vector<double>& values, double low, double high) {
  constexpr std::size_t kMost = 10'000;  // layers; more than any model has
  if (!reads()) {
    if (!values.empty()) write(name) = values;
    return;
  }
  values.clear();
  const Json* found = find(name);
  if (found == nullptr || found->is_null()) return;
  if (!found->is_array() || found->empty() || found->size() > kMost)
    throw Wrong(fmt::format("has a \"{}\" that is not a list with one number per layer", name));
  for (const Json& one : *found) values.push_back(number_in(one, name, low, high));
}

void Fields::wholes(const char* name, std::vector<int>& values, double most, bool must) {
  if (!reads()) {
    write(name) = values;
    return;
  }
  values.clear();
  if (!must && find(name) == nullptr) return;
  for (const Json& one : array(name))
    values.push_back(static_cast<int>(whole_in(one, name, 0.0, most)));
}

}  // namespace kvloupe::results
