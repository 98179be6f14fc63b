#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/limits.h"

namespace kvloupe {

/// A pattern of a tokenizer.json: {"String": literal text} or {"Regex": regular expression}. The
/// expressions are written for Oniguruma in Ruby's syntax and matched by PCRE2. Syntax that the two
/// understand differently is translated, or refused by name.
class Regex {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  /// Reads the field "pattern" of a part. Throws FileError (UnsupportedTokenizer for an expression
  /// kvloupe cannot match exactly).
  explicit Regex(const JsonPart& part);
  /// `expression` itself; errors name `part`.
  Regex(const std::string& expression, const JsonPart& part);

  /// The matches from left to right, without overlaps. `text` must be UTF-8. An empty match is not
  /// found where the previous match ends. Throws WorkError after the time limit, or if one match
  /// takes more than ten million steps.
  std::vector<Match> find_all(std::string_view text, const Limits& limits) const;

 private:
  struct Free {
    void operator()(void* code) const;
  };
  void compile(const std::string& expression, const JsonPart& part);

  std::string literal_;  // not empty: search for this instead
  std::shared_ptr<void> code_;
};

}  // namespace kvloupe
