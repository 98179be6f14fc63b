#pragma once
// One list of an object's fields for reading and for writing.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"

namespace kvloupe::window {

/// "FIELD is wrong": the error of one field.
struct FieldError {
  std::string problem;
};

/// The fields of one JSON object, read or written one after the other. A field that is missing
/// leaves its value as it is. A wrong one throws FieldError; where `lenient`, it counts as missing.
class JsonFields {
 public:
  using Json = nlohmann::ordered_json;
  template <class Value>
  using Words = std::vector<std::pair<std::string, Value>>;

  /// Reads. `where`: the object's name, for the error.
  JsonFields(const Json& object, std::string where, bool lenient = false)
      : from_(&object), where_(std::move(where)), lenient_(lenient) {
    if (!object.is_object()) throw FieldError{where_ + " must be an object"};
  }
  /// Writes.
  explicit JsonFields(Json& object) : to_(&(object = Json::object())) {}

  bool reads() const { return from_ != nullptr; }
  /// The object that is read has this field, and not null.
  bool has(const char* field) {
    known_.emplace_back(field);
    return reads() && from_->contains(field) && !(*from_)[field].is_null();
  }
  std::string name(const std::string& field) const {
    return where_.empty() ? field : where_ + "." + field;
  }
  [[noreturn]] void fail(const std::string& field, const std::string& problem) const {
    throw FieldError{name(field) + " " + problem};
  }
  /// Refuses a field that was not asked for.
  void only_these() const {
    for (const auto& [key, value] : from_->items()) {
      if (!lenient_ && std::find(known_.begin(), known_.end(), key) == known_.end())
        fail(key, "is not a field that this version knows");
    }
  }
  /// Writes the value; or hands the field to `take`, if it is there.
  template <class Value, class Take>
  void either(const std::string& field, const Value& value, const Take& take) {
    if (!reads()) return void((*to_)[field] = value);
    known_.push_back(field);
    const auto found = from_->find(field);
    if (found == from_->end()) return;
    try {
      take(*found);
    } catch (const FieldError&) {
      if (!lenient_) throw;
    }
  }
  void operator()(const char* field, std::string& value) {
    either(field, value, [&](const Json& json) {
      if (!json.is_string()) fail(field, "must be a text");
      value = json.get<std::string>();
    });
  }
  /// Written only where it is set.
  void operator()(const char* field, std::optional<bool>& value) {
    if (!reads() && !value) return;
    either(field, value.value_or(false), [&](const Json& json) {
      if (!json.is_boolean()) fail(field, "must be true or false");
      value = json.get<bool>();
    });
  }
  void operator()(const char* field, bool& value) {
    std::optional<bool> known = value;
    (*this)(field, known);
    value = *known;
  }
  void operator()(const char* field, int& value, int least, int most) {
    either(field, value, [&](const Json& json) {
      if (!json.is_number_integer()) fail(field, "must be a whole number");
      const double number = json.get<double>();
      if (number < least || number > most)
        fail(field, "must be between " + std::to_string(least) + " and " + std::to_string(most));
      value = json.get<int>();
    });
  }
  void operator()(const char* field, double& value, double least, double most) {
    either(field, value, [&](const Json& json) {
      if (!json.is_number()) fail(field, "must be a number");
      const double number = json.get<double>();
      if (!(number >= least && number <= most)) fail(field, "is out of range");
      value = number;
    });
  }
  void operator()(const char* field, std::optional<std::pair<double, double>>& range) {
    const Json written = range ? Json(*range) : Json();
    range.reset();
    either(field, written, [&](const Json& json) {
      if (json.is_null()) return;
      if (!json.is_array() || json.size() != 2 || !json[0].is_number() || !json[1].is_number())
        fail(field, "must be two numbers or null");
      range.emplace(json[0].get<double>(), json[1].get<double>());
      if (!std::isfinite(range->first) || !std::isfinite(range->second) ||
          range->first == range->second)
        fail(field, "must be two different, finite numbers");
    });
  }
  /// One of some words: written as the first that stands for the value.
  template <class Value>
  void word(const char* field, Value& value, const Words<Value>& words) {
    const auto known = std::find_if(words.begin(), words.end(),
                                    [&](const auto& one) { return one.second == value; });
    either(field, known->first, [&](const Json& json) {
      for (const auto& [word, meaning] : words) {
        if (json == word) return void(value = meaning);
      }
      fail(field, "has no value " + json.dump());
    });
  }
  /// An object: `describe` gets its fields.
  template <class Describe>
  void object(const char* field, const Describe& describe) {
    if (!reads()) {
      JsonFields own((*to_)[field]);
      return describe(own);
    }
    either(field, 0, [&](const Json& json) {
      JsonFields own(json, name(field), lenient_);
      describe(own);
      own.only_these();
    });
  }

 private:
  const Json* from_ = nullptr;
  Json* to_ = nullptr;
  std::string where_;
  bool lenient_ = false;
  std::vector<std::string> known_;
};

}  // namespace kvloupe::window
