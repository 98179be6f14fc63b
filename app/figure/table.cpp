#include "app/figure/table.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/text.h"

namespace kvloupe::figure {

std::string latex_table(const Table& table, std::string_view caption, std::string_view label,
                        const std::vector<std::string>& remarks) {
  std::string text = "% Needs \\usepackage{booktabs}.\n";
  for (std::string remark : remarks) {
    for (char& c : remark) {
      if (c == '\n' || c == '\r') c = ' ';  // a comment ends with its line
    }
    text += "% " + remark + "\n";
  }
  text += fmt::format(
      "\\begin{{table}}\n\\centering\n\\caption{{{}}}\n\\label{{tab:{}}}\n"
      "\\begin{{tabular}}{{l{:r<{}}}}\n\\toprule\n",
      latex_text(caption), label, "", table.columns.size());
  if (!table.columns_are.empty()) {
    text +=
        fmt::format(" & \\multicolumn{{{0}}}{{c}}{{{1}}} \\\\\n\\cmidrule(lr){{2-{2}}}\n",
                    table.columns.size(), latex_text(table.columns_are), table.columns.size() + 1);
  }
  text += latex_text(table.rows_are);
  for (const std::string& column : table.columns) text += " & " + latex_text(column);
  text += " \\\\\n\\midrule\n";
  for (const Table::Row& row : table.rows) {
    text += latex_text(row.name);
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      const std::string cell = row.cells[c].empty() ? "--" : latex_text(row.cells[c]);
      const bool best = c < row.best.size() && row.best[c];
      text += best ? fmt::format(" & \\textbf{{{}}}", cell) : " & " + cell;
    }
    text += " \\\\\n";
  }
  return text + "\\bottomrule\n\\end{tabular}\n\\end{table}\n";
}

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
