#include "app/lesson/expression.h"

#include <fmt/format.h>
#include <muParser.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/one_line.h"
#include "analysis/policy/kit/formula_text.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/policy/policy_catalog.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/lesson/values.h"
#include "app/session/view_catalog.h"

namespace kvloupe::lesson {

/// One formula for muParser. Values of the catalogue are cut out of it: each has become the name of
/// a temporary, padded so that columns stay.
struct Expression::Node {
  struct Argument {
    std::string word;                    // in quotes
    std::shared_ptr<const Node> number;  // else
  };
  struct Use {
    const ValueInfo* info = nullptr;
    std::string temporary;
    std::vector<Argument> arguments;
  };
  std::string text;
  std::vector<Use> uses;
};

namespace {

using Node = Expression::Node;

constexpr std::size_t kLongest = 1000;
constexpr int kDeepest = 8;
constexpr std::size_t kMostUses = 90;  // so that a temporary's name is no longer than a value's

bool name_inside(char c) { return starts_formula_name(c) || is_formula_digit(c) || c == '.'; }

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A word in quotes as the catalogue has it. Throws UsageError.
std::string checked_word(Argument kind, const std::string& word) {
  switch (kind) {
    case Argument::measure: {
      std::string name = word;
      std::replace(name.begin(), name.end(), ' ', '_');
      return require_measure(name).info->name;
    }
    case Argument::score:
    case Argument::part: {
      std::vector<std::string> names;
      for (const PolicyEntry& entry : policy_catalog()) {
        if (kind == Argument::part || entry.kind() == PartKind::score) names.push_back(entry.name);
      }
      if (contains(names, word)) return word;
      throw UsageError(fmt::format("{} is not a {}; the nearest is '{}'", shown_word(word),
                                   kind == Argument::score ? "score" : "part of a policy",
                                   nearest_word(word, names)));
    }
    case Argument::view: {
      if (window::find_view(word) != nullptr) return word;
      std::vector<std::string> names;
      for (const figure::FigureInfo& view : figure::figure_catalog()) names.push_back(view.name);
      throw UsageError(fmt::format("{} is not a view; the nearest is '{}'", shown_word(word),
                                   nearest_word(word, names)));
    }
    default:
      return word;
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text)
      : text_(text), values_(value_names()), names_(formula_names()) {}

  std::shared_ptr<const Node> read() const {
    if (text_.size() > kLongest) {
      refuse(kLongest, fmt::format("the expression is longer than {} characters", kLongest));
    }
    return expression(0, text_.size(), 0);
  }

 private:
  [[noreturn]] static void refuse(std::size_t at, const std::string& why) {
    throw ExpressionError(at + 1, why);
  }

  /// The formula in [begin, end).
  std::shared_ptr<const Node> expression(std::size_t begin, std::size_t end, int depth) const {
    auto node = std::make_shared<Node>();
    node->text = text_.substr(begin, end - begin);
    if (std::all_of(node->text.begin(), node->text.end(), is_formula_blank))
      refuse(begin, "the expression is empty");
    int open = 0;
    for (std::size_t at = begin; at < end;) {
      const char c = text_[at];
      if (starts_formula_name(c)) {
        at = name(*node, begin, at, end, depth);
      } else if (is_formula_digit(c) ||
                 (c == '.' && at + 1 < end && is_formula_digit(text_[at + 1]))) {
        at = number(at, end);
      } else {
        if (c == '(') ++open;
        if (c == ')') --open;
        if (c == ',' && open == 0) refuse(at, "an expression must have one value");
        at += symbol(at, end);
      }
    }
    check(*node, begin);
    return node;
  }

  std::size_t number(std::size_t at, std::size_t end) const {
    const std::size_t stop = formula_number_end(text_, at, end);
    if (stop < end && (name_inside(text_[stop]))) refuse(at, "not a number");
    return stop;
  }

  /// Length of the operator at `at`.
  std::size_t symbol(std::size_t at, std::size_t end) const {
    const std::size_t length = formula_operator_length(text_, at, end);
    if (length > 0) return length;
    if (text_[at] == '=') refuse(at, "assignment is not allowed; for equality write ==");
    if (text_[at] == '%') refuse(at, "write a share as a number: 0.1 for 10 %");
    if (text_[at] == '"') refuse(at, "words in quotes are allowed only as arguments of a value");
    refuse(at, fmt::format("{} is not an operator", shown_word(text_.substr(at, 1))));
  }

  /// A value of the catalogue, with its arguments, or a function or constant of muParser.
  std::size_t name(Node& node, std::size_t begin, std::size_t at, std::size_t end,
                   int depth) const {
    std::size_t stop = at;
    while (stop < end && name_inside(text_[stop])) ++stop;
    const std::string word(text_.substr(at, stop - at));
    std::size_t open = stop;
    while (open < end && is_formula_blank(text_[open])) ++open;
    const bool call = open < end && text_[open] == '(';
    const ValueInfo* info = find_value(word);
    if (info == nullptr) {
      if (call ? contains(names_.functions, word) : contains(names_.constants, word)) return stop;
      std::vector<std::string> all = values_;
      all.insert(all.end(), names_.functions.begin(), names_.functions.end());
      refuse(at, fmt::format("{} is not a value; the nearest is '{}'", shown_word(word),
                             nearest_word(word, all)));
    }
    if (!call && !info->arguments.empty()) {
      refuse(at, fmt::format("'{}' needs arguments: {}", word, usage(*info)));
    }
    if (call && info->arguments.empty()) refuse(open, fmt::format("'{}' takes no arguments", word));
    if (node.uses.size() >= kMostUses) refuse(at, "too many values in one expression");
    Node::Use use;
    use.info = info;
    use.temporary = fmt::format("v{}", node.uses.size());
    if (call) stop = arguments(use, at, open, end, depth);
    // Same length: columns in the messages of muParser stay right.
    std::string stand_in = use.temporary;
    stand_in.resize(stop - at, ' ');
    node.text.replace(at - begin, stop - at, stand_in);
    node.uses.push_back(std::move(use));
    return stop;
  }

  /// Reads from the '(' at `open`; returns the place behind the ')'.
  std::size_t arguments(Node::Use& use, std::size_t at, std::size_t open, std::size_t end,
                        int depth) const {
    if (depth >= kDeepest) refuse(at, "values are nested too deeply");
    std::vector<std::pair<std::size_t, std::size_t>> places;
    std::size_t from = open + 1;
    std::size_t close = from;
    bool quoted = false;
    for (int level = 1; close < end; ++close) {
      const char c = text_[close];
      if (c == '"') quoted = !quoted;
      if (quoted) continue;
      if (c == '(') ++level;
      if (c == ')' && --level == 0) break;
      if (c == ',' && level == 1) {
        places.emplace_back(from, close);
        from = close + 1;
      }
    }
    if (quoted) refuse(open, "a quote is not closed");
    if (close >= end) refuse(open, "a ')' is missing");
    places.emplace_back(from, close);
    const auto& wanted = use.info->arguments;
    if (places.size() != wanted.size()) {
      refuse(at, fmt::format("the form of '{}' is {}", use.info->name, usage(*use.info)));
    }
    for (std::size_t i = 0; i < places.size(); ++i)
      use.arguments.push_back(argument(*use.info, i, places[i].first, places[i].second, depth));
    check_choice(use, at);
    return close + 1;
  }

  /// A view, a choice of it, a value of that.
  static void check_choice(const Node::Use& use, std::size_t at) {
    const auto& kinds = use.info->arguments;
    if (kinds.size() != 3 || kinds[0].first != Argument::view) return;
    try {
      figure::check_choices(*window::find_view(use.arguments[0].word),
                            {{use.arguments[1].word, use.arguments[2].word}});
    } catch (const UsageError& error) {
      refuse(at, error.what());
    }
  }

  Node::Argument argument(const ValueInfo& info, std::size_t place, std::size_t from,
                          std::size_t to, int depth) const {
    const Argument kind = info.arguments[place].first;
    Node::Argument result;
    if (kind == Argument::number) {
      result.number = expression(from, to, depth + 1);
      if (is_words(*result.number)) refuse(from, "this must be a number, not a text");
      return result;
    }
    while (from < to && is_formula_blank(text_[from])) ++from;
    while (to > from && is_formula_blank(text_[to - 1])) --to;
    const bool is_word = to - from >= 2 && text_[from] == '"' && text_[to - 1] == '"' &&
                         text_.substr(from + 1, to - from - 2).find('"') == std::string::npos;
    if (!is_word) {
      refuse(from, fmt::format("'{}' needs a word in quotes: {}", info.name, usage(info)));
    }
    try {
      result.word = checked_word(kind, std::string(text_.substr(from + 1, to - from - 2)));
    } catch (const UsageError& error) {
      refuse(from, error.what());
    }
    return result;
  }

 public:
  /// Whether the formula is one text and nothing else. Throws where a text is part of a sum.
  static bool is_words(const Node& node) {
    return node.uses.size() == 1 && node.uses.front().info->is_text;
  }

 private:
  /// Lets muParser read it with any numbers.
  void check(const Node& node, std::size_t begin) const {
    for (const Node::Use& use : node.uses) {
      if (!use.info->is_text) continue;
      std::string rest = node.text;
      rest.erase(std::remove_if(rest.begin(), rest.end(), is_formula_blank), rest.end());
      if (rest != use.temporary) {
        refuse(begin,
               fmt::format("'{}' is a text; it cannot be used in a computation", use.info->name));
      }
    }
    mu::Parser parser;
    double one = 1.0;
    try {
      for (const Node::Use& use : node.uses) parser.DefineVar(use.temporary, &one);
      parser.SetExpr(node.text);
      int results = 0;
      parser.Eval(results);
      if (results != 1) refuse(begin, "an expression must have one value");
    } catch (const mu::ParserError& error) {
      const std::size_t at =
          error.GetPos() < 0 ? 0
                             : std::min(static_cast<std::size_t>(error.GetPos()), node.text.size());
      refuse(begin + at, formula_problem(error, "expression"));
    }
  }

  std::string_view text_;
  std::vector<std::string> values_;
  FormulaNames names_;
};

template <typename Test>
bool any_use(const Node& node, const Test& test) {
  return std::any_of(node.uses.begin(), node.uses.end(), [&](const Node::Use& use) {
    return test(*use.info) ||
           std::any_of(use.arguments.begin(), use.arguments.end(), [&](const Node::Argument& one) {
             return one.number && any_use(*one.number, test);
           });
  });
}

Value value_of(const Node& node, const LessonState& state, Progress& progress);

Value value_of(const Node::Use& use, const LessonState& state, Progress& progress) {
  std::vector<Value> arguments;
  for (const Node::Argument& argument : use.arguments) {
    if (argument.number) {
      arguments.push_back(value_of(*argument.number, state, progress));
    } else {
      arguments.emplace_back(argument.word);
    }
  }
  return use.info->compute(state, arguments, progress);
}

Value value_of(const Node& node, const LessonState& state, Progress& progress) {
  if (Reader::is_words(node)) return value_of(node.uses.front(), state, progress);
  mu::Parser parser;
  std::vector<double> values;
  values.reserve(node.uses.size());  // muParser keeps their addresses
  for (const Node::Use& use : node.uses) {
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

Expression::Expression(std::string_view text) : text_(text), root_(Reader(text).read()) {}

bool Expression::is_text() const { return root_ && Reader::is_words(*root_); }

bool Expression::is_quick() const {
  return !root_ || !any_use(*root_, [](const ValueInfo& info) { return !info.quick; });
}

bool Expression::depends_on_selection() const {
  return root_ && any_use(*root_, [](const ValueInfo& info) { return info.of_selection; });
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
