#pragma once
// The common part of all formulas that muParser evaluates, whatever their names mean.

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvloupe {

/// An error in a formula's text. A message that starts with "is" continues the word.
struct FormulaError : std::runtime_error {
  FormulaError(std::size_t position_, std::string word_, const std::string& why)
      : std::runtime_error(why), position(position_), word(std::move(word_)) {}
  std::size_t position;  // in the formula, from 0
  std::string word;      // as written there
};

/// A formula for muParser. What its language evaluates by itself is cut out of it: each use has
/// become the name of a temporary, padded so that columns stay.
struct FormulaNode {
  struct Argument {
    std::string word;                            // in quotes
    std::shared_ptr<const FormulaNode> formula;  // else
  };
  struct Use {
    std::string name, temporary;
    std::size_t position = 0;
    std::vector<Argument> arguments;
  };
  std::string text;
  std::vector<std::string> variables;  // each once
  std::vector<Use> uses;

  /// Whether a test holds for the name of a variable or a use, here or in an argument.
  bool any(const std::function<bool(std::string_view name)>& test) const;
};

/// Reads the operators, numbers and functions of muParser; a language says what other names are.
class FormulaReader {
 public:
  struct Language {
    const char* what;      // it reads, in messages
    const char* empty;     // problems: a formula without anything in it,
    const char* unclosed;  // a '(' of a use,
    const char* quote;     // a quote that is not an argument
    const char* in_names;  // allowed in names beside letters, digits and '_'
    std::size_t longest;   // text
    int deepest;           // use in the arguments of uses
  };
  FormulaReader(std::string_view text, const Language& language);
  virtual ~FormulaReader() = default;

  /// Throws FormulaError.
  std::shared_ptr<const FormulaNode> read() const;

 protected:
  struct Place {
    std::size_t begin, end;
  };
  struct Name {
    std::string word;
    std::size_t at;
    bool call;         // a '(' follows,
    std::size_t open;  // here
  };
  enum class Kind { of_muparser, variable, use };

  [[noreturn]] static void refuse(std::size_t at, std::string_view word, const std::string& why);
  static bool contains(const std::vector<std::string>& words, std::string_view word);
  /// Functions and constants of muParser.
  const std::vector<std::string>& functions() const { return functions_; }
  bool is_of_muparser(const Name& name) const {
    return contains(name.call ? functions_ : constants_, name.word);
  }
  std::string_view text(Place place) const {
    return text_.substr(place.begin, place.end - place.begin);
  }
  /// The place without blanks at its ends.
  Place trimmed(Place place) const;
  std::shared_ptr<const FormulaNode> formula(Place place, int depth) const;

 private:
  /// Refuses a name that the language does not have, or not in this form.
  virtual Kind kind_of(const Name& name, const FormulaNode& node) const = 0;
  /// Reads the arguments of a call; formulas in it at `depth`.
  virtual void read_arguments(FormulaNode::Use& use, const std::vector<Place>& places,
                              int depth) const = 0;

  bool is_in_name(char c) const;
  std::size_t number(std::size_t at, std::size_t end) const;
  std::size_t symbol(std::size_t at, std::size_t end) const;
  std::size_t name(FormulaNode& node, std::size_t at, Place whole, int depth) const;
  std::vector<Place> arguments(std::size_t open, std::size_t end) const;
  void check(const FormulaNode& node, std::size_t begin) const;

  std::string_view text_;
  Language language_;
  std::vector<std::string> functions_, constants_;
};

}  // namespace kvloupe
