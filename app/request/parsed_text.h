#pragma once

#include <optional>
#include <string>
#include <utility>

namespace kvloupe::request {

/// What a text means that a person edits, parsed again only where it has changed: for whoever asks
/// in every frame.
template <class Value>
class ParsedText {
 public:
  /// Throws what `parse(text)` throws.
  template <class Parse>
  const Value& of(const std::string& text, const Parse& parse) {
    if (!value_ || text != text_) {
      value_ = parse(text);
      text_ = text;
    }
    return *value_;
  }

 private:
  std::string text_;
  std::optional<Value> value_;
};

}  // namespace kvloupe::request
