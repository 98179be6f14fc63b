#include "analysis/policy/kit/formula.h"

#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <numeric>
#include <utility>

#include "analysis/math/numeric/statistics.h"
#include "analysis/policy/kit/nearest_word.h"

namespace kvloupe {

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

constexpr double kWidest = 1001;

bool is_width(double k) { return k >= 1.0 && k <= kWidest && std::fmod(k, 2.0) == 1.0; }

class ColumnReader : public FormulaReader {
 public:
  ColumnReader(std::string_view text, const std::vector<std::string>& variables)
      : FormulaReader(text, {.what = "formula",
                             .empty = "an expression is missing here",
                             .unclosed = "has no closing ')'",
                             .quote = "is not an operator",
                             .in_names = "",
                             .longest = 4000,
                             .deepest = 64}),
        variables_(variables) {}

 private:
  Kind kind_of(const Name& name, const FormulaNode&) const override {
    static const std::vector<std::string> columns = {"rank", "zscore", "minmax", "smooth"};
    if (!name.call && contains(variables_, name.word)) return Kind::variable;
    if (name.call && contains(columns, name.word)) return Kind::use;
    if (is_of_muparser(name)) return Kind::of_muparser;
    std::vector<std::string> all = variables_;
    if (name.call) {
      all = functions();
      all.insert(all.end(), columns.begin(), columns.end());
    }
    refuse(name.at, name.word,
           std::string("is not a ") + (name.call ? "function" : "variable") + "; the nearest is '" +
               nearest_word(name.word, all) + "'");
  }

  void read_arguments(FormulaNode::Use& use, const std::vector<Place>& places,
                      int depth) const override {
    const bool smooth = use.name == "smooth";
    if (places.size() != (smooth ? 2 : 1)) {
      refuse(
          use.position, use.name,
          smooth ? "takes two arguments: smooth(x, k)" : "takes one argument: " + use.name + "(x)");
    }
    for (const Place& place : places) use.arguments.push_back({{}, formula(place, depth)});
    if (!smooth) return;
    // A width that is one number can be judged now.
    const FormulaNode& width = *use.arguments[1].formula;
    if (!width.variables.empty() || !width.uses.empty()) return;
    mu::Parser parser;
    parser.SetExpr(width.text);
    if (is_width(parser.Eval())) return;
    const Place place = trimmed({places[1].begin, places[1].end});
    refuse(place.begin, text(place), "smooth's width must be an odd number, 1 to 1001");
  }

  const std::vector<std::string>& variables_;
};

std::vector<double> evaluate_node(const FormulaNode& node, const Formula::Columns& columns,
                                  std::size_t n);

std::vector<double> evaluate_call(const FormulaNode::Use& call, const Formula::Columns& columns,
                                  std::size_t n) {
  const std::vector<double> argument = evaluate_node(*call.arguments[0].formula, columns, n);
  const auto wrong =
      std::find_if(argument.begin(), argument.end(), [](double x) { return !std::isfinite(x); });
  if (wrong != argument.end()) {
    throw FormulaValueError(static_cast<std::size_t>(wrong - argument.begin()),
                            call.name + " at column " + std::to_string(call.position + 1) +
                                " of the formula gets a number that is not finite");
  }
  if (call.name == "rank") return ranks_of(argument);
  if (call.name == "zscore") return column_zscore(argument);
  if (call.name == "minmax") return column_minmax(argument);
  const std::vector<double> width = evaluate_node(*call.arguments[1].formula, columns, n);
  for (std::size_t row = 0; row < n; ++row) {
    const double k = width[row];
    if (k != width.front() || !is_width(k)) {
      throw FormulaValueError(row, "the width of smooth at column " +
                                       std::to_string(call.position + 1) +
                                       " of the formula must be one odd number, 1 to 1001");
    }
  }
  return column_smooth(argument, n == 0 ? 1 : static_cast<int>(width.front()));
}

std::vector<double> evaluate_node(const FormulaNode& node, const Formula::Columns& columns,
                                  std::size_t n) {
  mu::Parser parser;
  std::vector<std::vector<double>> temporaries;
  std::list<std::pair<const double*, double>> sources;  // columns, and the row's value of each
  const auto add = [&](const std::string& name, const std::vector<double>& column) {
    parser.DefineVar(name, &sources.emplace_back(column.data(), 0.0).second);
  };
  for (const std::string& variable : node.variables) add(variable, columns.find(variable)->second);
  for (const FormulaNode::Use& call : node.uses)
    add(call.temporary, temporaries.emplace_back(evaluate_call(call, columns, n)));
  parser.SetExpr(node.text);
  std::vector<double> result(n);
  for (std::size_t row = 0; row < n; ++row) {
    for (auto& [column, value] : sources) value = column[row];
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
    : root_(ColumnReader(text, variables).read()) {}

bool Formula::uses(std::string_view variable) const {
  return root_->any([&](std::string_view name) { return name == variable; });
}

std::vector<double> Formula::evaluate(const Columns& columns, std::size_t n) const {
  return evaluate_node(*root_, columns, n);
}

}  // namespace kvloupe
