#include "analysis/policy/kit/formula.h"

#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "analysis/numeric/ranks.h"
#include "analysis/policy/kit/formula_text.h"
#include "analysis/policy/kit/nearest_word.h"

namespace kvloupe {

/// One expression for muParser. Calls of column functions are cut out of it: each has become the
/// name of a temporary, padded so that columns stay.
struct Formula::Node {
  struct Call {
    std::string function;
    std::string temporary;
    std::size_t position = 0;
    std::unique_ptr<Node> argument;
    std::unique_ptr<Node> width;  // of smooth
  };
  std::string text;
  std::vector<std::string> variables;
  std::vector<Call> calls;
};

namespace {

/// (x − mean)/standard deviation over all n; 0 if the standard deviation is 0.
std::vector<double> column_zscore(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0.0;
  for (const double x : values) square += (x - mean) * (x - mean);
  const double deviation = std::sqrt(square / n);
  const bool equal =
      std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end();
  std::vector<double> result(values.size(), 0.0);
  if (equal || deviation == 0.0) return result;
  std::transform(values.begin(), values.end(), result.begin(),
                 [&](double x) { return (x - mean) / deviation; });
  return result;
}

/// (x − smallest)/(largest − smallest); 0 if all are equal.
std::vector<double> column_minmax(const std::vector<double>& values) {
  std::vector<double> result(values.size(), 0.0);
  if (values.empty()) return result;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (*least == *most) return result;
  std::transform(values.begin(), values.end(), result.begin(),
                 [least = *least, most = *most](double x) { return (x - least) / (most - least); });
  return result;
}

/// Sum of the `width` (odd) values around each value, divided by `width`; values beyond the ends
/// count as 0, as in snapkv.
std::vector<double> column_smooth(const std::vector<double>& values, int width) {
  const auto n = static_cast<std::ptrdiff_t>(values.size());
  const std::ptrdiff_t half = width / 2;
  std::vector<double> result(values.size());
  for (std::ptrdiff_t i = 0; i < n; ++i) {
    const auto first = values.begin() + std::max<std::ptrdiff_t>(i - half, 0);
    const auto end = values.begin() + std::min(i + half + 1, n);
    result[static_cast<std::size_t>(i)] = std::accumulate(first, end, 0.0) / width;
  }
  return result;
}

using Node = Formula::Node;

constexpr std::size_t kLongest = 4000;
constexpr int kDeepest = 64;
constexpr double kWidest = 1001;

const std::vector<std::string>& column_functions() {
  static const std::vector<std::string> names = {"rank", "zscore", "minmax", "smooth"};
  return names;
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool name_inside(char c) { return starts_formula_name(c) || is_formula_digit(c); }

class Reader {
 public:
  Reader(std::string_view text, const std::vector<std::string>& variables)
      : text_(text), variables_(variables), names_(formula_names()) {}

  std::unique_ptr<Node> read() const {
    if (text_.size() > kLongest) {
      throw FormulaError(kLongest, std::string(text_.substr(kLongest, 1)),
                         "the formula is longer than " + std::to_string(kLongest) + " characters");
    }
    return expression(0, text_.size(), 0);
  }

 private:
  [[noreturn]] static void refuse(std::size_t at, std::string_view word, const std::string& why) {
    throw FormulaError(at, std::string(word), why);
  }

  /// The formula in [begin, end).
  std::unique_ptr<Node> expression(std::size_t begin, std::size_t end, int depth) const {
    auto node = std::make_unique<Node>();
    node->text = text_.substr(begin, end - begin);
    if (std::all_of(node->text.begin(), node->text.end(), is_formula_blank)) {
      refuse(begin, text_.substr(begin, end - begin), "an expression is missing here");
    }
    int open = 0;
    for (std::size_t at = begin; at < end;) {
      const char c = text_[at];
      if (starts_formula_name(c)) {
        at = name(*node, begin, at, end, depth);
      } else if (is_formula_digit(c) || c == '.') {
        at = number(at, end);
      } else {
        if (c == '(') ++open;
        if (c == ')') --open;
        if (c == ',' && open == 0) refuse(at, ",", "a formula must have one value");
        at += symbol(at, end);
      }
    }
    check(*node, begin);
    return node;
  }

  std::size_t number(std::size_t at, std::size_t end) const {
    std::size_t stop = formula_number_end(text_, at, end);
    const bool plain = stop > at && !(stop == at + 1 && text_[at] == '.');
    if (!plain || (stop < end && (name_inside(text_[stop]) || text_[stop] == '.'))) {
      while (stop < end && (name_inside(text_[stop]) || text_[stop] == '.')) ++stop;
      refuse(at, text_.substr(at, std::max<std::size_t>(stop - at, 1)), "is not a number");
    }
    return stop;
  }

  /// Length of the operator at `at`.
  std::size_t symbol(std::size_t at, std::size_t end) const {
    const std::size_t length = formula_operator_length(text_, at, end);
    if (length > 0) return length;
    if (text_[at] == '=') refuse(at, "=", "assignment is not allowed; for equality write ==");
    const bool shown = text_[at] >= 0x20 && text_[at] < 0x7F;
    refuse(at, shown ? text_.substr(at, 1) : "?", "is not an operator");
  }

  /// A variable, a constant, or a function; a call of a column function is read to its end.
  std::size_t name(Node& node, std::size_t begin, std::size_t at, std::size_t end,
                   int depth) const {
    std::size_t stop = at;
    while (stop < end && name_inside(text_[stop])) ++stop;
    const std::string word(text_.substr(at, stop - at));
    std::size_t after = stop;
    while (after < end && is_formula_blank(text_[after])) ++after;
    const bool call = after < end && text_[after] == '(';
    if (!call) {
      if (contains(variables_, word)) {
        if (!contains(node.variables, word)) node.variables.push_back(word);
      } else if (!contains(names_.constants, word)) {
        refuse(at, word,
               "is not a variable; the nearest is '" + nearest_word(word, variables_) + "'");
      }
      return stop;
    }
    if (contains(names_.functions, word)) return stop;
    if (!contains(column_functions(), word)) {
      std::vector<std::string> all = names_.functions;
      all.insert(all.end(), column_functions().begin(), column_functions().end());
      refuse(at, word, "is not a function; the nearest is '" + nearest_word(word, all) + "'");
    }
    if (depth >= kDeepest) refuse(at, word, "functions are nested too deeply");
    return column_call(node, begin, {at, stop, after, end}, depth);
  }

  struct CallPlace {
    std::size_t name, name_end, open, end;
  };

  std::size_t column_call(Node& node, std::size_t begin, const CallPlace& place, int depth) const {
    const std::string word(text_.substr(place.name, place.name_end - place.name));
    std::vector<std::size_t> commas;
    int open = 0;
    std::size_t close = place.open;
    for (; close < place.end; ++close) {
      if (text_[close] == '(') ++open;
      if (text_[close] == ')' && --open == 0) break;
      if (text_[close] == ',' && open == 1) commas.push_back(close);
    }
    if (close == place.end) refuse(place.open, "(", "has no closing ')'");
    const std::size_t wanted = word == "smooth" ? 1 : 0;
    if (commas.size() != wanted) {
      refuse(place.name, word,
             wanted == 1 ? "takes two arguments: smooth(x, k)"
                         : "takes one argument: " + word + "(x)");
    }
    Node::Call call;
    call.function = word;
    call.position = place.name;
    call.temporary = "_" + std::to_string(node.calls.size());
    call.argument = expression(place.open + 1, wanted == 1 ? commas[0] : close, depth + 1);
    if (wanted == 1) {
      call.width = expression(commas[0] + 1, close, depth + 1);
      check_width(*call.width, commas[0] + 1, close);
    }
    std::string replacement = call.temporary;
    replacement.resize(close + 1 - place.name, ' ');
    node.text.replace(place.name - begin, replacement.size(), replacement);
    node.calls.push_back(std::move(call));
    return close + 1;
  }

  /// A width that is one number can be judged now.
  void check_width(const Node& width, std::size_t begin, std::size_t end) const {
    if (!width.variables.empty() || !width.calls.empty()) return;
    mu::Parser parser;
    parser.SetExpr(width.text);
    const double k = parser.Eval();
    if (k >= 1.0 && k <= kWidest && std::fmod(k, 2.0) == 1.0) return;
    while (begin < end && is_formula_blank(text_[begin])) ++begin;
    refuse(begin, text_.substr(begin, end - begin),
           "smooth's width must be an odd number, 1 to 1001");
  }

  /// Lets muParser read the expression.
  void check(const Node& node, std::size_t begin) const {
    mu::Parser parser;
    double one = 1.0;
    for (const std::string& variable : node.variables) parser.DefineVar(variable, &one);
    for (const Node::Call& call : node.calls) parser.DefineVar(call.temporary, &one);
    try {
      parser.SetExpr(node.text);
      parser.Eval();
    } catch (const mu::ParserError& error) {
      const bool at_end =
          error.GetCode() == mu::ecUNEXPECTED_EOF || error.GetCode() == mu::ecMISSING_PARENS;
      std::size_t at = node.text.size();
      std::string word = error.GetToken();
      if (!at_end) {
        at = std::min<std::size_t>(error.GetPos(), node.text.size());
        const std::size_t found = word.empty() ? at : node.text.rfind(word, at);
        if (found != std::string::npos) at = found;
        for (const Node::Call& call : node.calls) {
          if (call.temporary == word) word = call.function;
        }
      } else {
        while (at > 0 && is_formula_blank(node.text[at - 1])) --at;
        word.clear();
      }
      refuse(begin + at, word, formula_problem(error, "formula"));
    }
  }

  std::string_view text_;
  const std::vector<std::string>& variables_;
  FormulaNames names_;
};

bool reads(const Node& node, std::string_view variable) {
  return contains(node.variables, variable) ||
         std::any_of(node.calls.begin(), node.calls.end(), [&](const Node::Call& call) {
           return reads(*call.argument, variable) || (call.width && reads(*call.width, variable));
         });
}

std::vector<double> evaluate_node(const Node& node, const Formula::Columns& columns, std::size_t n);

std::vector<double> evaluate_call(const Node::Call& call, const Formula::Columns& columns,
                                  std::size_t n) {
  const std::vector<double> argument = evaluate_node(*call.argument, columns, n);
  const auto wrong =
      std::find_if(argument.begin(), argument.end(), [](double x) { return !std::isfinite(x); });
  if (wrong != argument.end()) {
    throw FormulaValueError(static_cast<std::size_t>(wrong - argument.begin()),
                            call.function + " at column " + std::to_string(call.position + 1) +
                                " of the formula gets a number that is not finite");
  }
  if (call.function == "rank") return ranks_of(argument);
  if (call.function == "zscore") return column_zscore(argument);
  if (call.function == "minmax") return column_minmax(argument);
  const std::vector<double> width = evaluate_node(*call.width, columns, n);
  for (std::size_t row = 0; row < n; ++row) {
    const double k = width[row];
    if (k != width.front() || !(k >= 1.0 && k <= kWidest) || std::fmod(k, 2.0) != 1.0) {
      throw FormulaValueError(row, "the width of smooth at column " +
                                       std::to_string(call.position + 1) +
                                       " of the formula must be one odd number, 1 to 1001");
    }
  }
  return column_smooth(argument, n == 0 ? 1 : static_cast<int>(width.front()));
}

std::vector<double> evaluate_node(const Node& node, const Formula::Columns& columns,
                                  std::size_t n) {
  std::vector<std::vector<double>> temporaries;
  for (const Node::Call& call : node.calls) {
    temporaries.push_back(evaluate_call(call, columns, n));
  }
  mu::Parser parser;
  std::vector<const double*> sources;
  for (const std::string& variable : node.variables) {
    sources.push_back(columns.find(variable)->second.data());
  }
  for (const auto& temporary : temporaries) sources.push_back(temporary.data());
  std::vector<double> row_values(sources.size(), 0.0);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    parser.DefineVar(i < node.variables.size() ? node.variables[i]
                                               : node.calls[i - node.variables.size()].temporary,
                     &row_values[i]);
  }
  parser.SetExpr(node.text);
  std::vector<double> result(n);
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t i = 0; i < sources.size(); ++i) row_values[i] = sources[i][row];
    try {
      result[row] = parser.Eval();
    } catch (const mu::ParserError& error) {
      throw FormulaValueError(row, "the formula cannot be evaluated: " + error.GetMsg());
    }
  }
  return result;
}
}  // namespace

Formula::Formula(std::string_view text, const std::vector<std::string>& variables)
    : root_(Reader(text, variables).read()) {}
Formula::~Formula() = default;
Formula::Formula(Formula&&) noexcept = default;
Formula& Formula::operator=(Formula&&) noexcept = default;

bool Formula::uses(std::string_view variable) const { return reads(*root_, variable); }

std::vector<double> Formula::evaluate(const Columns& columns, std::size_t n) const {
  return evaluate_node(*root_, columns, n);
}

}  // namespace kvloupe
