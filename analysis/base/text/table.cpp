#include "analysis/base/text/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/base/text/text.h"

namespace kvloupe {

namespace {
std::string without_line_ends(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

/// The names of the columns, each with what stands over it.
std::vector<std::string> full_names(const Table& table) {
  std::vector<std::string> names;
  for (const Table::Head& head : table.upper) names.resize(names.size() + head.span, head.text);
  names.resize(table.columns.size());
  for (std::size_t c = 0; c < names.size(); ++c) {
    const std::string& own = table.columns[c].name;
    names[c] += (names[c].empty() || own.empty() ? "" : ", ") + own;
  }
  return names;
}

std::string latex_cell(const Table::Cell& cell) {
  std::string text = latex_text(cell.text);
  if (cell.best) text = "\\textbf{" + text + "}";
  text += latex_text(cell.mark);
  return cell.interval.empty() ? text : text + "{\\scriptsize " + latex_text(cell.interval) + "}";
}

std::string across(std::size_t columns, char align, const std::string& text) {
  return fmt::format("\\multicolumn{{{}}}{{{}}}{{{}}}", columns, align, text);
}
}  // namespace

std::string markdown_table(const Table& table) {
  std::string text;
  for (const std::string& name : full_names(table)) text += "| " + table_cell(name) + " ";
  text += "|\n";
  for (const Table::Column& column : table.columns) text += column.numbers ? "| ---: " : "| --- ";
  text += "|\n";
  for (const Table::Row& row : table.rows) {
    if (!row.part.empty()) {
      text += "| *" + table_cell(row.part) + "* ";
      for (std::size_t c = 1; c < table.columns.size(); ++c) text += "| ";
      text += "|\n";
    }
    for (const Table::Cell& cell : row.cells) {
      const char* bold = cell.best ? "**" : "";
      text += fmt::format("| {0}{1}{0}{2}{3}{4} ", bold, table_cell(cell.text), cell.mark,
                          cell.interval.empty() ? "" : " ", cell.interval);
    }
    text += "|\n";
  }
  return text;
}

std::string latex_table(const Table& table, const LatexFloat& around) {
  std::string text;
  for (const std::string& remark : around.remarks) text += "% " + without_line_ends(remark) + "\n";
  text += "\\begin{table}\n\\centering\n\\caption{" + latex_text(around.caption) + "}\n";
  if (!around.label.empty()) text += "\\label{tab:" + around.label + "}\n";
  if (around.fit_width) text += "\\resizebox{\\textwidth}{!}{%\n";
  text += "\\begin{tabular}{";
  for (const Table::Column& column : table.columns) text += column.numbers ? 'r' : 'l';
  text += "}\n\\toprule\n";
  const auto add_line = [&](const std::vector<std::string>& cells) {
    text += fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  };
  std::vector<std::string> cells;
  std::string rules;
  std::size_t column = 1;
  for (const Table::Head& head : table.upper) {
    const std::string name = latex_text(head.text);
    cells.push_back(head.span > 1 ? across(head.span, 'c', name) : name);
    if (head.span > 1 && !name.empty())
      rules += fmt::format("\\cmidrule(lr){{{}-{}}}", column, column + head.span - 1);
    column += head.span;
  }
  if (!cells.empty()) add_line(cells);
  if (!rules.empty()) text += rules + "\n";
  cells.clear();
  for (const Table::Column& one : table.columns) cells.push_back(latex_text(one.name));
  add_line(cells);
  for (const Table::Row& row : table.rows) {
    if (row.rule || &row == &table.rows.front()) text += "\\midrule\n";
    if (!row.part.empty())
      add_line({across(table.columns.size(), 'l', "\\emph{" + latex_text(row.part) + "}")});
    cells.clear();
    for (const Table::Cell& cell : row.cells) cells.push_back(latex_cell(cell));
    add_line(cells);
  }
  return text + "\\bottomrule\n\\end{tabular}" + (around.fit_width ? "}" : "") + "\n\\end{table}\n";
}

std::string csv_line(std::span<const CsvCell> cells) {
  std::string line;
  for (const CsvCell& cell : cells) {
    if (!line.empty() || &cell != cells.data()) line += ',';
    if (const long* whole = std::get_if<long>(&cell)) {
      line += std::to_string(*whole);
    } else if (const double* number = std::get_if<double>(&cell)) {
      if (!std::isnan(*number)) line += fmt::format("{:.9g}", *number);
    } else if (const Quoted* quoted = std::get_if<Quoted>(&cell)) {
      line += doubled_quotes(quoted->text);
    } else {
      const std::string_view text = std::get<std::string_view>(cell);
      const bool plain = text.find_first_of(",\"\n\r#") == std::string_view::npos;
      line += plain ? std::string(text) : doubled_quotes(text);
    }
  }
  return line + '\n';
}

std::string csv_line(std::initializer_list<CsvCell> cells) {
  return csv_line(std::span(cells.begin(), cells.size()));
}

void CsvWriter::comment(std::string_view key, std::string_view value) {
  out_ << "# " << key << ": " << without_line_ends(std::string(value)) << '\n';
}

}  // namespace kvloupe
