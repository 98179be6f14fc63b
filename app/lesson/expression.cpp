#include "app/lesson/expression.h"

#include <fmt/format.h>
#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/formula_reader.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/lesson/values.h"
#include "app/session/view_catalog.h"

namespace kvloupe::lesson {

namespace {

constexpr std::size_t kMostUses = 90;  // so that a temporary's name is no longer than a value's

/// A word in quotes as the catalogue has it. Throws UsageError.
std::string checked_word(Argument kind, const std::string& word) {
  if (kind == Argument::measure) {
    std::string name = word;
    std::replace(name.begin(), name.end(), ' ', '_');
    return require_measure(name).info->name;
  }
  std::vector<std::string> names;
  const char* what = "view";
  if (kind == Argument::view) {
    for (const figure::FigureInfo& view : figure::figure_catalog()) names.push_back(view.name);
  } else if (kind == Argument::score || kind == Argument::part) {
    what = kind == Argument::score ? "score" : "part of a policy";
    for (const PolicyEntry& entry : policy_catalog()) {
      if (kind == Argument::part || entry.kind() == PartKind::score) names.push_back(entry.name);
    }
  } else {
    return word;
  }
  if (std::find(names.begin(), names.end(), word) != names.end()) return word;
  throw UsageError(fmt::format("{} is not a {}; the nearest is '{}'", shown_word(word), what,
                               nearest_word(word, names)));
}

/// Whether the formula is one text and nothing else.
bool is_words(const FormulaNode& node) {
  return node.uses.size() == 1 && find_value(node.uses.front().name)->is_text;
}

class ValueReader : public FormulaReader {
 public:
  explicit ValueReader(std::string_view text)
      : FormulaReader(text, {.what = "expression",
                             .empty = "the expression is empty",
                             .unclosed = "a ')' is missing",
                             .quote = "words in quotes are allowed only as arguments of a value",
                             .in_names = ".",
                             .longest = 1000,
                             .deepest = 8}) {}

  /// read() of a formula whose texts stand alone.
  std::shared_ptr<const FormulaNode> read_value() const {
    auto node = read();
    check_texts(*node);
    return node;
  }

 private:
  Kind kind_of(const Name& name, const FormulaNode& node) const override {
    const ValueInfo* info = find_value(name.word);
    if (info == nullptr) {
      if (is_of_muparser(name)) return Kind::of_muparser;
      std::vector<std::string> all = value_names();
      all.insert(all.end(), functions().begin(), functions().end());
      refuse(name.at, name.word,
             "is not a value; the nearest is '" + nearest_word(name.word, all) + "'");
    }
    if (!name.call && !info->arguments.empty())
      refuse(name.at, "", fmt::format("'{}' needs arguments: {}", name.word, usage(*info)));
    if (name.call && info->arguments.empty())
      refuse(name.open, "", fmt::format("'{}' takes no arguments", name.word));
    if (node.uses.size() >= kMostUses) refuse(name.at, "", "too many values in one expression");
    return Kind::use;
  }

  void read_arguments(FormulaNode::Use& use, const std::vector<Place>& places,
                      int depth) const override {
    const ValueInfo& info = *find_value(use.name);
    const auto& kinds = info.arguments;
    if (places.size() != kinds.size())
      refuse(use.position, "", fmt::format("the form of '{}' is {}", use.name, usage(info)));
    for (std::size_t i = 0; i < places.size(); ++i)
      use.arguments.push_back(argument(info, kinds[i].first, places[i], depth));
    if (kinds.size() != 3 || kinds[0].first != Argument::view) return;
    try {  // a view, a choice of it, a value of that
      figure::check_choices(*window::find_view(use.arguments[0].word),
                            {{use.arguments[1].word, use.arguments[2].word}});
    } catch (const UsageError& error) {
      refuse(use.position, "", error.what());
    }
  }

  FormulaNode::Argument argument(const ValueInfo& info, Argument kind, Place place,
                                 int depth) const {
    if (kind == Argument::number) {
      FormulaNode::Argument number{{}, formula(place, depth)};
      check_texts(*number.formula);
      if (is_words(*number.formula)) refuse(place.begin, "", "this must be a number, not a text");
      return number;
    }
    place = trimmed(place);
    const std::string_view quoted = text(place);
    if (quoted.size() < 2 || quoted.front() != '"' || quoted.find('"', 1) != quoted.size() - 1) {
      refuse(place.begin, "",
             fmt::format("'{}' needs a word in quotes: {}", info.name, usage(info)));
    }
    try {
      return {checked_word(kind, std::string(quoted.substr(1, quoted.size() - 2))), nullptr};
    } catch (const UsageError& error) {
      refuse(place.begin, "", error.what());
    }
  }

  static void check_texts(const FormulaNode& node) {
    for (const FormulaNode::Use& use : node.uses) {
      if (!find_value(use.name)->is_text) continue;
      const std::size_t from = node.text.find_first_not_of(" \t");
      const std::size_t last = node.text.find_last_not_of(" \t");
      if (node.text.substr(from, last + 1 - from) == use.temporary) continue;
      refuse(use.position, "",
             fmt::format("'{}' is a text; it cannot be used in a computation", use.name));
    }
  }
};

std::shared_ptr<const FormulaNode> read_expression(std::string_view text) try {
  return ValueReader(text).read_value();
} catch (const FormulaError& error) {
  const std::string why = error.what();
  throw ExpressionError(error.position + 1,
                        why.starts_with("is ") ? shown_word(error.word) + " " + why : why);
}

/// Whether a test holds for a value of the formula.
template <typename Test>
bool any_value(const FormulaNode& node, const Test& test) {
  return node.any([&](std::string_view name) { return test(*find_value(name)); });
}

Value value_of(const FormulaNode& node, const LessonState& state, Progress& progress);

Value value_of(const FormulaNode::Use& use, const LessonState& state, Progress& progress) {
  std::vector<Value> arguments;
  for (const FormulaNode::Argument& argument : use.arguments) {
    if (argument.formula) {
      arguments.push_back(value_of(*argument.formula, state, progress));
    } else {
      arguments.emplace_back(argument.word);
    }
  }
  return find_value(use.name)->compute(state, arguments, progress);
}

Value value_of(const FormulaNode& node, const LessonState& state, Progress& progress) {
  if (is_words(node)) return value_of(node.uses.front(), state, progress);
  mu::Parser parser;
  std::vector<double> values;
  values.reserve(node.uses.size());  // muParser keeps their addresses
  for (const FormulaNode::Use& use : node.uses) {
    progress.check();
    values.push_back(std::get<double>(value_of(use, state, progress)));
    parser.DefineVar(use.temporary, &values.back());
  }
  try {
    parser.SetExpr(node.text);
    return parser.Eval();
  } catch (const mu::ParserError&) {
    return std::numeric_limits<double>::quiet_NaN();  // a value outside a function's domain
  }
}

}  // namespace

std::string shown_word(std::string_view word) { return "'" + in_one_line(word, 60) + "'"; }

Expression::Expression(std::string_view text) : text_(text), root_(read_expression(text)) {}

bool Expression::is_text() const { return root_ && is_words(*root_); }

bool Expression::is_quick() const {
  return !root_ || !any_value(*root_, [](const ValueInfo& info) { return !info.quick; });
}

bool Expression::depends_on_selection() const {
  return root_ && any_value(*root_, [](const ValueInfo& info) { return info.of_selection; });
}

Value evaluate(const Expression& expression, const LessonState& state, Progress& progress) {
  if (!expression.root_) return std::numeric_limits<double>::quiet_NaN();
  return value_of(*expression.root_, state, progress);
}

bool is_met(const Expression& expression, const LessonState& state, Progress& progress) {
  const Value value = evaluate(expression, state, progress);
  if (const std::string* text = std::get_if<std::string>(&value)) return !text->empty();
  const double number = std::get<double>(value);
  return !std::isnan(number) && number != 0.0;
}

}  // namespace kvloupe::lesson
