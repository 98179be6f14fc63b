#pragma once
// A table of texts and numbers, and its forms: Markdown, LaTeX, CSV.

#include <initializer_list>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace kvloupe {

struct Table {
  struct Head {
    std::string text;
    std::size_t span = 1;  // columns
  };
  /// A name that begins with > stands over numbers, which are set to the right.
  struct Column {
    std::string name;
    bool numbers;
    Column(std::string_view given) : name(given), numbers(given.starts_with('>')) {
      if (numbers) name.erase(0, 1);
    }
    Column(const char* given) : Column(std::string_view(given)) {}
    Column(const std::string& given) : Column(std::string_view(given)) {}
  };
  struct Cell {
    std::string text;
    bool best = false;          // in bold
    std::string mark = {};      // after the text
    std::string interval = {};  // after both, smaller
    Cell(std::string shown) : text(std::move(shown)) {}
    Cell(const char* shown) : text(shown) {}
  };
  struct Row {
    std::vector<Cell> cells;
    std::string part = {};  // stands over the row, across all columns; empty: nothing
    bool rule = false;      // a line stands above
  };
  std::vector<Head> upper = {};  // a line above the names of the columns; empty: none
  std::vector<Column> columns;
  std::vector<Row> rows = {};
  std::vector<std::string> notes = {};  // under the table, where its form has them

  void add(std::vector<Cell> cells) { rows.push_back({std::move(cells)}); }
};

/// The lines of a table in Markdown. Pipes in cells are escaped; other marks stay as they are.
std::string markdown_table(const Table& table);

/// What stands around a table in LaTeX.
struct LatexFloat {
  std::string caption;
  std::string label = {};                 // after "tab:"; empty: none
  std::vector<std::string> remarks = {};  // comments before the table
  bool fit_width = false;                 // scaled to the width of the text
};
/// The table as a float with the rules of booktabs. All texts are escaped.
std::string latex_table(const Table& table, const LatexFloat& around);

/// A value of CSV. Texts are quoted where needed, or always; NaN is an empty field, and numbers
/// have nine significant digits.
struct Quoted {
  std::string_view text;
};
struct CsvCell : std::variant<long, double, std::string_view, Quoted> {
  template <typename Value>    // a condition is 0 or 1
  CsvCell(const Value& value)  // NOLINT(google-explicit-constructor)
      : variant(as_cell(value)) {}

 private:
  template <typename Value>
  static variant as_cell(const Value& value) {
    if constexpr (std::is_integral_v<Value>) {
      return static_cast<long>(value);
    } else if constexpr (std::is_floating_point_v<Value>) {
      return static_cast<double>(value);
    } else if constexpr (std::is_same_v<Value, Quoted>) {
      return value;
    } else {
      return std::string_view(value);
    }
  }
};
/// One line of comma-separated values (RFC 4180) and its end.
std::string csv_line(std::span<const CsvCell> cells);
std::string csv_line(std::initializer_list<CsvCell> cells);

/// Writes lines of CSV; comment lines start with #.
class CsvWriter {
 public:
  using Cell = CsvCell;
  explicit CsvWriter(std::ostream& out) : out_(out) {}
  void comment(std::string_view key, std::string_view value);
  void row(std::initializer_list<Cell> cells) { out_ << csv_line(cells); }
  void row(std::span<const Cell> cells) { out_ << csv_line(cells); }
  /// Rows as they were written.
  void text(std::string_view rows) { out_ << rows; }

 private:
  std::ostream& out_;
};

}  // namespace kvloupe
