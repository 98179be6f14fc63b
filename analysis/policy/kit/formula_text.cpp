#include "analysis/policy/kit/formula_text.h"

#include <muParser.h>

#include <algorithm>

namespace kvloupe {

std::size_t formula_number_end(std::string_view text, std::size_t at, std::size_t end) {
  const auto digits = [&](std::size_t i) {
    while (i < end && is_formula_digit(text[i])) ++i;
    return i;
  };
  std::size_t stop = digits(at);
  if (stop < end && text[stop] == '.') stop = digits(stop + 1);
  if (stop < end && (text[stop] == 'e' || text[stop] == 'E')) {
    const bool sign = stop + 1 < end && (text[stop + 1] == '+' || text[stop + 1] == '-');
    const std::size_t exponent = stop + (sign ? 2 : 1);
    if (digits(exponent) > exponent) stop = digits(exponent);
  }
  return stop;
}

std::size_t formula_operator_length(std::string_view text, std::size_t at, std::size_t end) {
  const std::string_view two = text.substr(at, std::min<std::size_t>(2, end - at));
  for (const char* pair : {"==", "!=", "<=", ">=", "&&", "||"}) {
    if (two == pair) return 2;
  }
  return std::string_view("+-*/^()<>?:,! \t").find(text[at]) == std::string_view::npos ? 0 : 1;
}

FormulaNames formula_names() {
  const mu::Parser parser;
  FormulaNames names;
  for (const auto& [name, function] : parser.GetFunDef()) names.functions.push_back(name);
  for (const auto& [name, value] : parser.GetConst()) names.constants.push_back(name);
  return names;
}

std::string formula_problem(const mu::ParserError& error, std::string_view what) {
  switch (error.GetCode()) {
    case mu::ecUNEXPECTED_EOF:
      return "the " + std::string(what) + " ends too early";
    case mu::ecMISSING_PARENS:
      return "a ')' is missing";
    case mu::ecUNEXPECTED_PARENS:
      return "this parenthesis does not belong here";
    case mu::ecUNEXPECTED_ARG_SEP:
    case mu::ecUNEXPECTED_ARG:
      return "a comma is allowed only between the arguments of a function";
    case mu::ecUNEXPECTED_OPERATOR:
    case mu::ecUNASSIGNABLE_TOKEN:
      return "an operator is missing or does not belong here";
    case mu::ecUNEXPECTED_VAL:
    case mu::ecUNEXPECTED_VAR:
    case mu::ecUNEXPECTED_FUN:
      return "an operator is missing before it";
    case mu::ecTOO_MANY_PARAMS:
      return "too many arguments for this function";
    case mu::ecTOO_FEW_PARAMS:
      return "too few arguments for this function";
    case mu::ecMISSING_ELSE_CLAUSE:
    case mu::ecMISPLACED_COLON:
      return "a choice has the form condition ? value : other value";
    default:
      return "this cannot be read";
  }
}

}  // namespace kvloupe
