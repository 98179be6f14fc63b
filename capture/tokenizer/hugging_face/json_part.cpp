#include "capture/tokenizer/hugging_face/json_part.h"

#include "analysis/base/core/error.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

JsonPart::JsonPart(const nlohmann::json& value, std::string path, std::string name)
    : value_(&value), path_(std::move(path)), name_(std::move(name)) {
  if (!value.is_object() && !value.is_null()) fail("must be an object");
}

void JsonPart::fail(const std::string& problem) const {
  throw FileError(path_, name_.empty() ? problem : name_ + ": " + problem);
}

void JsonPart::refuse(const std::string& what, const std::string& hint) const {
  throw UnsupportedTokenizer(
      path_, (name_.empty() ? "" : name_ + " ") + what + " is not supported; " + hint);
}

const nlohmann::json& JsonPart::field(const char* name) const {
  static const nlohmann::json kNull;
  if (!value_->is_object()) return kNull;
  const auto found = value_->find(name);
  return found == value_->end() ? kNull : *found;
}

JsonPart JsonPart::part(const char* name) const {
  return {field(name), path_, name_.empty() ? name : name_ + " " + name};
}

std::vector<JsonPart> JsonPart::parts(const char* name) const {
  const nlohmann::json& list = field(name);
  if (!list.is_array()) fail(std::string(name) + " must be a list");
  std::vector<JsonPart> parts;
  for (const nlohmann::json& element : list) {
    if (!element.is_object()) fail(std::string(name) + " must be a list of objects");
    parts.emplace_back(element, path_, name_.empty() ? name : name_);
  }
  return parts;
}

std::string JsonPart::text(const char* name) const {
  const nlohmann::json& value = field(name);
  if (!value.is_string()) fail(std::string(name) + " must be a text");
  return value.get<std::string>();
}

std::optional<std::string> JsonPart::text_if(const char* name) const {
  if (field(name).is_null()) return std::nullopt;
  return text(name);
}

bool JsonPart::flag(const char* name, bool fallback) const {
  const nlohmann::json& value = field(name);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) fail(std::string(name) + " must be true or false");
  return value.get<bool>();
}

std::int64_t JsonPart::number(const char* name, std::int64_t largest) const {
  const nlohmann::json& value = field(name);
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(largest)) {
    fail(std::string(name) + " must be a whole number from 0 to " + std::to_string(largest));
  }
  return value.get<std::int64_t>();
}

}  // namespace kvloupe
