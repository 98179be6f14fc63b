#pragma once

// What tests read of a figure: what its scene draws, and the rows of its CSV by column name, which
// are compared with naive twins.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "analysis/evaluation/evaluation.h"
#include "app/document/figure_file.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unwatched.h"

namespace kvloupe::test {

/// The fonts, read once for all tests of a program.
inline const figure::TextMetrics& fonts() {
  static const figure::TextMetrics metrics;
  return metrics;
}

/// What is drawn of the figure of this name.
inline figure::Scene scene_of(const std::string& name, const figure::MadeFigure& made,
                              const figure::FileOptions& options = {}) {
  return page_of(figure::find_figure(name), made, options, fonts());
}

/// The items of one kind, in the order in which they are drawn.
template <class Kind, class Drawn>
std::vector<Kind> items_of(const Drawn& drawn) {
  std::vector<Kind> found;
  for (const figure::Item& item : drawn.items) {
    if (const Kind* one = std::get_if<Kind>(&item)) found.push_back(*one);
  }
  return found;
}

/// Results or a study, as a figure takes them.
inline std::shared_ptr<const Evaluation> results_of(const std::filesystem::path& path) {
  return std::make_shared<const Evaluation>(read_evaluation(path));
}

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

/// The figures of a made-up trace in a folder of its own.
struct TraceFigures {
  explicit TraceFigures(const SyntheticTraceOptions& options = {})
      : states_of_trace(write_synthetic_trace(folder / "t.h5", options)),
        trace(std::make_shared<const Trace>(folder / "t.h5")) {}

  figure::MadeFigure make(const std::string& name,
                          const request::FigureSettings& settings = {}) const {
    return request::FigureMaker(trace).make(figure::find_figure(name), settings, unwatched);
  }
  /// The rows of a figure's CSV, of which there are some.
  std::vector<CsvRow> rows_of(const std::string& name,
                              const request::FigureSettings& settings = {}) const {
    std::vector<CsvRow> rows = csv_rows(*make(name, settings).figure);
    EXPECT_FALSE(rows.empty()) << name;
    return rows;
  }

  TemporaryFolder folder;
  SyntheticStates states_of_trace;
  std::shared_ptr<const Trace> trace;
};

}  // namespace kvloupe::test
