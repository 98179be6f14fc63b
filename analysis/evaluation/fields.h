#pragma once
// One description of a results file's fields serves its reader and its writer. Reading is bounded
// and defensive. Private to analysis/evaluation.

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "analysis/base/text/unknown.h"

namespace kvloupe::results {

using Json = nlohmann::ordered_json;

inline constexpr double kAnyNumber = std::numeric_limits<double>::max();

/// A value that is not as it should be; what() continues "run 3 ": "has no \"depth\"".
struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The whole file. Throws FileError: missing, too large, not JSON (truncated, foreign), nested too
/// deeply, an object with too many members.
Json read_json(const std::filesystem::path& path);
/// In one line, whatever the texts hold.
std::string line_of(const Json& json);

/// The number of a value between two ends; a truth value is 0 or 1. `name` is for the error. Throws
/// Wrong.
double number_in(const Json& json, const char* name, double low, double high);
/// The same for an integer.
double whole_in(const Json& json, const char* name, double low, double high);

/// The members of one object, read or written one after the other. One function that takes a Fields
/// and a struct describes a kind of object. Members are written in the order of the calls and read
/// in any order. All functions throw Wrong for a member that is not as it should be.
class Fields {
 public:
  /// Reads. `what`, for the error, follows "has a ".
  explicit Fields(const Json& object, const char* what = "value");
  /// Writes.
  explicit Fields(Json* object) : to_(object) {}

  bool reads() const { return to_ == nullptr; }
  /// The member of an object that is read, or null.
  const Json* find(const char* name) const;
  Json& write(const char* name) { return (*to_)[name]; }

  /// The treatment of a member that is missing or null: it is refused, or it leaves a text empty, a
  /// number NaN and an integer unchanged. `written`: writing always adds the member; `not_written`:
  /// writing leaves out an empty one.
  enum Missing { refused, written, not_written };

  void text(const char* name, std::string& value, Missing missing = written);
  /// One of two words; a missing one is the first.
  void either(const char* name, bool& second, const char* first_word, const char* second_word,
              Missing missing = written);
  void truth(const char* name, bool& value);
  /// A number between two ends.
  void number(const char* name, double& value, double low = -kAnyNumber, double high = kAnyNumber,
              Missing missing = refused);
  /// A list of numbers; an empty one is not written.
  void numbers(const char* name, std::vector<double>& values, double low, double high);
  /// An integer; one that is not known, and not written, is NaN or below 0.
  template <typename Number>
  void whole(const char* name, Number& value, double low, double high, Missing missing = refused) {
    if (!reads()) {
      if (missing != not_written || value >= Number{0}) write(name) = stored(value);
      return;
    }
    const Json* found = find(name);
    if (found == nullptr && missing != refused) return;
    const double number = whole_in(member(name), name, low, high);
    value = member(name).is_number_unsigned()
                ? static_cast<Number>(member(name).get<std::uint64_t>())
                : static_cast<Number>(number);
  }
  /// A list of indices; `must`: it is there.
  void wholes(const char* name, std::vector<int>& values, double most, bool must = true);

  /// An object that must be there; `describe` gets its Fields.
  template <typename Describe>
  void object(const char* name, const Describe& describe) {
    if (reads()) {
      Fields own(member(name), name);
      describe(own);
    } else {
      Json made = Json::object();
      Fields own(&made);
      describe(own);
      write(name) = std::move(made);
    }
  }
  /// A list of objects that must be there; `describe` gets the Fields and the struct of each.
  template <typename Value, typename Describe>
  void list(const char* name, std::vector<Value>& values, const Describe& describe) {
    if (reads()) {
      for (const Json& one : array(name)) {
        Fields own(one, name);
        describe(own, values.emplace_back());
      }
      return;
    }
    Json made = Json::array();
    for (Value& value : values) {
      Fields own(&made.emplace_back(Json::object()));
      describe(own, value);
    }
    write(name) = std::move(made);
  }
  /// A list that must be there.
  const Json& array(const char* name) const;

 private:
  const Json& member(const char* name) const;
  template <typename Number>
  static auto stored(const Number& value) {
    if constexpr (std::is_floating_point_v<Number>) {
      return static_cast<std::int64_t>(value);
    } else {
      return value;
    }
  }
  const Json* from_ = nullptr;
  Json* to_ = nullptr;
};

}  // namespace kvloupe::results
