#pragma once

// The rows of a figure's CSV by column name, for tests that compare figures with naive twins.

#include <cmath>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "analysis/table.h"

namespace kvloupe::test {

using CsvRow = std::map<std::string, std::string>;

/// The cells of a line; a quoted cell may have commas, its quotes are left out.
inline std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

/// The rows of CSV text, comment lines left out; a short row's last columns are empty.
inline std::vector<CsvRow> csv_rows(const std::string& text) {
  std::vector<CsvRow> rows;
  std::vector<std::string> heading;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line == "\r" || line.front() == '#') continue;
    const std::vector<std::string> cells = csv_cells(line);
    if (heading.empty()) {
      heading = cells;
      continue;
    }
    CsvRow& row = rows.emplace_back();
    for (std::size_t i = 0; i < heading.size(); ++i) {
      row[heading[i]] = i < cells.size() ? cells[i] : "";
    }
  }
  return rows;
}

/// The rows a figure writes.
inline std::vector<CsvRow> csv_rows(const figure::Figure& figure) {
  std::ostringstream text;
  figure::CsvWriter csv(text);
  figure.write_csv(csv);
  return csv_rows(text.str());
}

/// A cell as a number; NaN where it is empty.
inline double csv_number(const CsvRow& row, const std::string& column) {
  const std::string& text = row.at(column);
  return text.empty() ? std::nan("") : std::stod(text);
}

}  // namespace kvloupe::test
