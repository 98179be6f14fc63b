#pragma once
// The expressions in {{...}} and after `when:`: formulas over named values (values.h).

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

namespace kvloupe::lesson {

struct ValueInfo;
struct LessonState;

}  // namespace kvloupe::lesson

namespace kvloupe {
class Progress;
struct FormulaNode;
}  // namespace kvloupe

namespace kvloupe::lesson {

/// A number, or a text. NaN: not available in this trace or state.
using Value = std::variant<double, std::string>;

/// An error in an expression.
struct ExpressionError : std::runtime_error {
  ExpressionError(std::size_t column_, const std::string& why)
      : std::runtime_error(why), column(column_) {}
  std::size_t column;  // from 1
};

/// The operators and functions of muParser over the catalogue of values. Words in quotes are
/// checked when the expression is read: measures, policies and views must exist. Cheap to copy;
/// thread-safe.
class Expression {
 public:
  Expression() = default;  // empty: NaN
  /// Throws ExpressionError.
  explicit Expression(std::string_view text);

  const std::string& text() const { return text_; }
  bool empty() const { return root_ == nullptr; }
  /// Whether it is a text instead of a number.
  bool is_text() const;
  /// Whether it reads only the state and the trace's tables, so that evaluate() takes no time and
  /// may be called in every frame.
  bool is_quick() const;
  /// Whether it changes with the layer, head, step or token that is selected.
  bool depends_on_selection() const;

 private:
  friend Value evaluate(const Expression&, const LessonState&, Progress&);
  std::string text_;
  std::shared_ptr<const FormulaNode> root_;
};

/// The value in a state (values.h); without is_quick() this may take long. Throws Cancelled through
/// progress, FileError and WorkError if the trace cannot be read. A value that a trace or a state
/// does not have is NaN, or an empty text.
Value evaluate(const Expression& expression, const LessonState& state, Progress& progress);

/// A word in messages about lessons: in one line, in quotes.
std::string shown_word(std::string_view word);

/// A condition: whether the value is a number other than 0, or a text that is not empty.
bool is_met(const Expression& expression, const LessonState& state, Progress& progress);

}  // namespace kvloupe::lesson
