#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace kvloupe::figure {

/// Writes comma-separated values (RFC 4180: quoted where needed, doubled quotes), numbers with nine
/// significant digits, NaN as an empty field. Comment lines start with #.
class CsvWriter {
 public:
  using Cell = std::variant<long, double, std::string_view>;
  explicit CsvWriter(std::ostream& out) : out_(out) {}
  void comment(std::string_view key, std::string_view value);
  void row(std::initializer_list<Cell> cells);
  void row(std::span<const Cell> cells);

 private:
  std::ostream& out_;
};

}  // namespace kvloupe::figure
