#include "app/figure/table.h"

#include <fmt/format.h>

#include "analysis/latex_text.h"

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

}  // namespace kvloupe::figure
