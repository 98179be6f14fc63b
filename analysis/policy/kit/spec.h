#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvloupe {

/// A share such as 10%; the parameter says of what. Kept as the decimal that a person wrote, so
/// that 29% of 100 is 29.
struct Percent {
  double value = 0.0;  // 10 for 10%
  /// ⌊value/100 · whole⌋, exact for decimals.
  long of(long whole) const;
  bool operator==(const Percent&) const = default;
};

/// An error in a text, and its place there (from 0).
struct TextProblem {
  std::size_t position = 0;
  std::string word;
  std::string why;
};

/// The shortest decimal that reads back as the same number, without exponent where short.
std::string number_text(double value);

/// A parameter's value: number, number%, word, or "quoted".
using SpecValue = std::variant<double, Percent, std::string>;

/// One `name(arg, ...)` with every parameter present (defaults filled in), in catalogue order.
struct SpecPart {
  std::string name;
  std::vector<std::pair<std::string, SpecValue>> arguments;
  /// The value of this parameter; each throws std::logic_error for an unknown parameter or another
  /// type.
  const SpecValue& argument(std::string_view name) const;
  double number(std::string_view name) const;
  int count(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  /// A count unchanged, a percentage as a part of `whole`.
  int share(std::string_view name, int whole) const;
  bool operator==(const SpecPart&) const = default;
};

/// A whole policy: score × protection × allocation × selection × merging. The first part is the
/// score; the modifiers are in catalogue order, so that equal policies have equal specs.
struct PolicySpec {
  std::vector<SpecPart> parts;
  const SpecPart& score() const { return parts.front(); }
  /// The modifier of that name, or nullptr.
  const SpecPart* find(std::string_view name) const;
  /// The canonical text: only arguments that differ from their default, named where not first.
  std::string text() const;
  bool operator==(const PolicySpec&) const = default;
};

/// Parses one spec against the catalogue. Throws UsageError naming the wrong word, its column (from
/// 1) and the nearest valid word. Inside quotes a quote is written twice.
PolicySpec parse_policy(std::string_view text);

/// A list of specs, split at commas outside parentheses and quotes.
std::vector<PolicySpec> parse_policy_list(std::string_view text);

/// Whole bytes of the caches of all layers and heads together.
struct Bytes {
  double value = 0.0;
  bool operator==(const Bytes&) const = default;
};
/// A share of the bytes that the full cache of the prompt takes in 16 bits.
struct ByteShare {
  double percent = 0.0;
  bool operator==(const ByteShare&) const = default;
};

/// A budget as written: a count, a share of the prompt length, or bytes.
struct Budget {
  std::variant<long, Percent, Bytes, ByteShare> value;
  bool in_bytes() const { return value.index() >= 2; }
  /// Entries: at least 1. Throws UsageError for 0, negative, not a number, and for bytes, which
  /// depend on the model and on how entries are held (typed_values.h).
  int resolve(int prompt_length) const;
  /// The most entries per head, up to `most`, whose bytes are no more than the budget's; `bytes`
  /// says what so many entries take, rising. `full`: of the prompt's full cache. Throws UsageError
  /// where one entry takes more.
  int resolve_bytes(double full, int most, const std::function<double(int)>& bytes) const;
  std::string text() const;
  bool operator==(const Budget&) const = default;
};
Budget parse_budget(std::string_view text);

}  // namespace kvloupe
