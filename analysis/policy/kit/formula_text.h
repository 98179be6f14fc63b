#pragma once
// The common part of all formulas that muParser evaluates, whatever their variables: numbers,
// operators, functions, and the texts of errors.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace mu {
class ParserError;
}

namespace kvloupe {

inline bool is_formula_blank(char c) { return c == ' ' || c == '\t'; }
inline bool is_formula_digit(char c) { return c >= '0' && c <= '9'; }
/// Whether a name may start with it: an ASCII letter or '_'.
inline bool starts_formula_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// The end of the longest number from `at` on, before `end`: digits, '.', digits, exponent. `at`
/// where there is none; a '.' alone counts.
std::size_t formula_number_end(std::string_view text, std::size_t at, std::size_t end);

/// The length of the operator, bracket, comma or blank at `at`, before `end`; 0 where there is
/// none.
std::size_t formula_operator_length(std::string_view text, std::size_t at, std::size_t end);

/// Functions and constants of muParser.
struct FormulaNames {
  std::vector<std::string> functions, constants;
};
FormulaNames formula_names();

/// The message of muParser, in our words; `what` is "formula" or "expression".
std::string formula_problem(const mu::ParserError& error, std::string_view what);

}  // namespace kvloupe
