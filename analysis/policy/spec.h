#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvloupe {

/// A share such as 10%: of what, the parameter says. Kept as the decimal a person wrote, so that
/// 29% of 100 is 29.
struct Percent {
  double value = 0.0;  // 10 for 10%
  /// ⌊value/100 · whole⌋, exact for decimals.
  long of(long whole) const;
  bool operator==(const Percent&) const = default;
};

/// A parameter's value: number, number%, word, or "quoted".
using SpecValue = std::variant<double, Percent, std::string>;

/// One `name(arg, ...)` with every parameter present (defaults filled in), in catalogue order.
struct SpecPart {
  std::string name;
  std::vector<std::pair<std::string, SpecValue>> arguments;
  const SpecValue& argument(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  bool operator==(const SpecPart&) const = default;
};

/// A whole policy: score × protection × allocation × selection × merging. The first part is the
/// score; modifiers are kept in catalogue order, so that equal policies have equal specs.
struct PolicySpec {
  std::vector<SpecPart> parts;
  const SpecPart& score() const { return parts.front(); }
  /// The modifier of that name, or nullptr.
  const SpecPart* find(std::string_view name) const;
  /// The canonical text: only arguments that differ from their default, named where not first.
  std::string text() const;
  bool operator==(const PolicySpec&) const = default;
};

/// Parses one spec against the catalogue. Throws UsageError naming the offending word, its column
/// (from 1) and the nearest valid one.
PolicySpec parse_policy(std::string_view text);

/// A list of specs, split at commas outside parentheses and quotes.
std::vector<PolicySpec> parse_policy_list(std::string_view text);

/// A budget as written: a count, or a share of the prompt length.
struct Budget {
  std::variant<long, Percent> value;
  /// Entries: at least 1. Throws UsageError for 0, negative, not a number.
  int resolve(int prompt_length) const;
  std::string text() const;
};
Budget parse_budget(std::string_view text);

}  // namespace kvloupe
