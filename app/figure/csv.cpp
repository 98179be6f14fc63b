#include "app/figure/csv.h"

#include <fmt/format.h>

#include <cmath>

namespace kvloupe::figure {

void CsvWriter::comment(std::string_view key, std::string_view value) {
  std::string line(value);
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  out_ << "# " << key << ": " << line << '\n';
}

void CsvWriter::row(std::initializer_list<Cell> cells) {
  row(std::span(cells.begin(), cells.size()));
}

void CsvWriter::row(std::span<const Cell> cells) {
  bool first = true;
  for (const Cell& cell : cells) {
    if (!first) out_ << ',';
    first = false;
    if (const long* whole = std::get_if<long>(&cell)) {
      out_ << *whole;
    } else if (const double* number = std::get_if<double>(&cell)) {
      if (!std::isnan(*number)) out_ << fmt::format("{:.9g}", *number);
    } else {
      const std::string_view text = std::get<std::string_view>(cell);
      if (text.find_first_of(",\"\n\r#") == std::string_view::npos) {
        out_ << text;
        continue;
      }
      out_ << '"';
      for (const char c : text) {
        if (c == '"') out_ << '"';
        out_ << c;
      }
      out_ << '"';
    }
  }
  out_ << '\n';
}

}  // namespace kvloupe::figure
