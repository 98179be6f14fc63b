#pragma once
// A figure's numbers as a table for a paper.

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace kvloupe::figure {

struct Table {
  struct Row {
    std::string name;
    std::vector<std::string> cells;  // [columns], as they are read; empty: not known
    std::vector<bool> best = {};     // [columns] set in bold; empty: none
  };
  std::string rows_are;              // above the names of the rows: "Policy"
  std::string columns_are;           // above the names of the columns; empty: nothing
  std::vector<std::string> columns;  // their names
  std::vector<Row> rows;
};

/// The table as a LaTeX float with the rules of booktabs. `caption` is its caption; `label` follows
/// "tab:"; each of `remarks` is a comment before it. All texts are escaped.
std::string latex_table(const Table& table, std::string_view caption, std::string_view label,
                        const std::vector<std::string>& remarks);

/// Writes comma-separated values (RFC 4180: quoted where needed, doubled quotes), numbers with nine
/// significant digits, NaN as an empty field. Comment lines start with #.
class CsvWriter {
 public:
  /// A whole number, a number or a text; a condition is 0 or 1.
  struct Cell : std::variant<long, double, std::string_view> {
    template <typename Value>
    Cell(const Value& value)  // NOLINT(google-explicit-constructor)
        : variant(as_cell(value)) {}

   private:
    template <typename Value>
    static variant as_cell(const Value& value) {
      if constexpr (std::is_integral_v<Value>) {
        return static_cast<long>(value);
      } else if constexpr (std::is_floating_point_v<Value>) {
        return static_cast<double>(value);
      } else {
        return std::string_view(value);
      }
    }
  };
  explicit CsvWriter(std::ostream& out) : out_(out) {}
  void comment(std::string_view key, std::string_view value);
  void row(std::initializer_list<Cell> cells);
  void row(std::span<const Cell> cells);
  /// Rows as they were written.
  void text(std::string_view rows) { out_ << rows; }

 private:
  std::ostream& out_;
};

}  // namespace kvloupe::figure
