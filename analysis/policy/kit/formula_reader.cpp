#include "analysis/policy/kit/formula_reader.h"

#include <muParser.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "analysis/base/text/text.h"

namespace kvloupe {

namespace {
bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

/// The message of muParser, in our words.
std::string problem_of(const mu::ParserError& error, const std::string& what) {
  static const std::string comma = "a comma is allowed only between the arguments of a function",
                           operation = "an operator is missing or does not belong here",
                           before = "an operator is missing before it",
                           choice = "a choice has the form condition ? value : other value";
  static const std::map<int, std::string> problems = {
      {mu::ecMISSING_PARENS, "a ')' is missing"},
      {mu::ecUNEXPECTED_PARENS, "this parenthesis does not belong here"},
      {mu::ecUNEXPECTED_ARG_SEP, comma},
      {mu::ecUNEXPECTED_ARG, comma},
      {mu::ecUNEXPECTED_OPERATOR, operation},
      {mu::ecUNASSIGNABLE_TOKEN, operation},
      {mu::ecUNEXPECTED_VAL, before},
      {mu::ecUNEXPECTED_VAR, before},
      {mu::ecUNEXPECTED_FUN, before},
      {mu::ecTOO_MANY_PARAMS, "too many arguments for this function"},
      {mu::ecTOO_FEW_PARAMS, "too few arguments for this function"},
      {mu::ecMISSING_ELSE_CLAUSE, choice},
      {mu::ecMISPLACED_COLON, choice}};
  if (error.GetCode() == mu::ecUNEXPECTED_EOF) return "the " + what + " ends too early";
  const auto known = problems.find(error.GetCode());
  return known == problems.end() ? "this cannot be read" : known->second;
}
}  // namespace

bool FormulaNode::any(const std::function<bool(std::string_view name)>& test) const {
  return std::any_of(variables.begin(), variables.end(), test) ||
         std::any_of(uses.begin(), uses.end(), [&](const Use& use) {
           return test(use.name) ||
                  std::any_of(use.arguments.begin(), use.arguments.end(), [&](const Argument& one) {
                    return one.formula && one.formula->any(test);
                  });
         });
}

FormulaReader::FormulaReader(std::string_view text, const Language& language)
    : text_(text), language_(language) {
  const mu::Parser parser;
  for (const auto& [name, function] : parser.GetFunDef()) functions_.push_back(name);
  for (const auto& [name, value] : parser.GetConst()) constants_.push_back(name);
}

void FormulaReader::refuse(std::size_t at, std::string_view word, const std::string& why) {
  throw FormulaError(at, std::string(word), why);
}

bool FormulaReader::contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

FormulaReader::Place FormulaReader::trimmed(Place place) const {
  while (place.begin < place.end && is_blank(text_[place.begin])) ++place.begin;
  while (place.end > place.begin && is_blank(text_[place.end - 1])) --place.end;
  return place;
}

std::shared_ptr<const FormulaNode> FormulaReader::read() const {
  const std::size_t longest = language_.longest;
  if (text_.size() > longest) {
    refuse(longest, text_.substr(longest, 1),
           std::string("the ") + language_.what + " is longer than " + std::to_string(longest) +
               " characters");
  }
  return formula({0, text_.size()}, 0);
}

std::shared_ptr<const FormulaNode> FormulaReader::formula(Place place, int depth) const {
  auto node = std::make_shared<FormulaNode>();
  node->text = text(place);
  if (text(trimmed(place)).empty()) refuse(place.begin, node->text, language_.empty);
  int open = 0;
  for (std::size_t at = place.begin; at < place.end;) {
    const char c = text_[at];
    if (starts_name(c)) {
      at = name(*node, at, place, depth);
    } else if (is_digit(c) || c == '.') {
      at = number(at, place.end);
    } else {
      if (c == '(') ++open;
      if (c == ')') --open;
      if (c == ',' && open == 0)
        refuse(at, ",", std::string("the ") + language_.what + " must have one value");
      at += symbol(at, place.end);
    }
  }
  check(*node, place.begin);
  return node;
}

bool FormulaReader::is_in_name(char c) const {
  return starts_name(c) || is_digit(c) ||
         std::string_view(language_.in_names).find(c) != std::string_view::npos;
}

std::size_t FormulaReader::number(std::size_t at, std::size_t end) const {
  double any = 0.0;
  const char* const begin = text_.data();
  auto stop = static_cast<std::size_t>(std::from_chars(begin + at, begin + end, any).ptr - begin);
  const auto goes_on = [&] {
    return stop < end && (is_in_name(text_[stop]) || text_[stop] == '.');
  };
  if (stop == at || goes_on()) {
    stop = std::max(stop, at + 1);
    while (goes_on()) ++stop;
    refuse(at, text({at, stop}), "is not a number");
  }
  return stop;
}

/// Length of the operator, bracket, comma or blank at `at`.
std::size_t FormulaReader::symbol(std::size_t at, std::size_t end) const {
  const std::string_view two = text({at, std::min(at + 2, end)});
  for (const char* pair : {"==", "!=", "<=", ">=", "&&", "||"}) {
    if (two == pair) return 2;
  }
  const char c = text_[at];
  if (std::string_view("+-*/^()<>?:,! \t").find(c) != std::string_view::npos) return 1;
  refuse(at, in_one_line(two.substr(0, 1)),
         c == '='   ? "assignment is not allowed; for equality write =="
         : c == '%' ? "write a share as a number: 0.1 for 10 %"
         : c == '"' ? language_.quote
                    : "is not an operator");
}

/// Returns the end of a name or, of a use with arguments, of these.
std::size_t FormulaReader::name(FormulaNode& node, std::size_t at, Place whole, int depth) const {
  std::size_t stop = at;
  while (stop < whole.end && is_in_name(text_[stop])) ++stop;
  Name name{std::string(text({at, stop})), at, false, trimmed({stop, whole.end}).begin};
  name.call = name.open < whole.end && text_[name.open] == '(';
  const Kind kind = kind_of(name, node);
  if (kind == Kind::variable && !contains(node.variables, name.word))
    node.variables.push_back(name.word);
  if (kind != Kind::use) return stop;
  FormulaNode::Use use{name.word, "_" + std::to_string(node.uses.size()), at, {}};
  if (name.call) {
    if (depth >= language_.deepest) refuse(at, name.word, "is nested too deeply");
    const std::vector<Place> places = arguments(name.open, whole.end);
    read_arguments(use, places, depth + 1);
    stop = places.back().end + 1;
  }
  std::string stand_in = use.temporary;
  stand_in.resize(stop - at, ' ');
  node.text.replace(at - whole.begin, stand_in.size(), stand_in);
  node.uses.push_back(std::move(use));
  return stop;
}

/// The arguments after the '(' at `open`, at least one; the last ends at the ')'.
std::vector<FormulaReader::Place> FormulaReader::arguments(std::size_t open,
                                                           std::size_t end) const {
  std::vector<Place> places;
  bool quoted = false;
  int level = 0;
  for (std::size_t at = open, from = open + 1; at < end; ++at) {
    const char c = text_[at];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '(') ++level;
    if (c == ')') --level;
    if ((c == ',' && level == 1) || level == 0) {
      places.push_back({from, at});
      from = at + 1;
    }
    if (level == 0) return places;
  }
  refuse(open, "(", quoted ? "a quote is not closed" : language_.unclosed);
}

/// Lets muParser read it, with any numbers.
void FormulaReader::check(const FormulaNode& node, std::size_t begin) const {
  mu::Parser parser;
  double one = 1.0;
  for (const std::string& variable : node.variables) parser.DefineVar(variable, &one);
  for (const FormulaNode::Use& use : node.uses) parser.DefineVar(use.temporary, &one);
  try {
    parser.SetExpr(node.text);
    parser.Eval();
  } catch (const mu::ParserError& error) {
    std::size_t at = trimmed({begin, begin + node.text.size()}).end;
    std::string word;
    if (error.GetCode() != mu::ecUNEXPECTED_EOF && error.GetCode() != mu::ecMISSING_PARENS) {
      word = error.GetToken();
      at = std::min<std::size_t>(error.GetPos(), node.text.size());
      const std::size_t found = word.empty() ? at : node.text.rfind(word, at);
      at = begin + (found == std::string::npos ? at : found);
      for (const FormulaNode::Use& use : node.uses) {
        if (use.temporary == word) word = use.name;
      }
    }
    refuse(at, word, problem_of(error, language_.what));
  }
}

}  // namespace kvloupe
