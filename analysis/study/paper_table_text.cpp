// A paper's table as Markdown, CSV or LaTeX.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "analysis/error.h"
#include "analysis/markdown.h"
#include "analysis/one_line.h"
#include "analysis/quoted.h"
#include "analysis/study/paper_table.h"

namespace kvloupe {

namespace {
std::string number(double value, int decimals) {
  return decimals < 0 ? fmt::format("{:.4g}", value) : fmt::format("{:.{}f}", value, decimals);
}

/// "[low, high]" with a blank before; nothing where the interval is not known.
std::string interval(const TableCell& cell) {
  if (!cell.interval) return "";
  return fmt::format(" [{}, {}]", number(cell.value->low, cell.decimals),
                     number(cell.value->high, cell.decimals));
}

bool is_partial(const TableCell& cell) { return cell.prompts < cell.wanted; }

/// The heads of each column, from the top, those that are empty left out.
std::vector<std::string> flat_heads(const FilledTable& table) {
  std::vector<std::string> flat;
  for (const std::vector<TableHead>& line : table.head) {
    std::size_t column = 0;
    for (const TableHead& head : line) {
      for (int i = 0; i < head.span; ++i, ++column) {
        if (flat.size() <= column) flat.emplace_back();
        if (head.text.empty()) continue;
        flat[column] += (flat[column].empty() ? "" : ", ") + head.text;
      }
    }
  }
  return flat;
}

/// What a results file is called where its rows do not begin with one of the full cache.
std::string part_name(const FilledTable::Row& row) {
  return fmt::format("{}, {}", row.model, row.compression);
}
bool names_parts(const FilledTable& table) {
  return table.table->layout != PaperLayout::tasks_across;
}

std::string markdown_cell(const TableCell& cell) {
  if (!cell.value) return "–";
  std::string text = number(cell.value->mean, cell.decimals);
  if (cell.best) text = "**" + text + "**";
  return text + (is_partial(cell) ? "†" : "") + interval(cell);
}

std::string markdown(const FilledTable& table) {
  const std::vector<std::string> heads = flat_heads(table);
  std::string text = fmt::format("**{}.** {}\n\n", table.table->title, table.table->what);
  for (const std::string& head : heads) text += "| " + table_cell(head) + " ";
  text += "|\n";
  for (std::size_t c = 0; c < heads.size(); ++c)
    text += static_cast<int>(c) < table.label_columns ? "| --- " : "| ---: ";
  text += "|\n";
  for (const FilledTable::Row& row : table.rows) {
    if (row.first_of_part && names_parts(table)) {
      text += "| *" + table_cell(part_name(row)) + "* ";
      for (std::size_t c = 1; c < heads.size(); ++c) text += "| ";
      text += "|\n";
    }
    for (const std::string& label : row.labels) text += "| " + table_cell(label) + " ";
    for (const TableCell& cell : row.cells) text += "| " + markdown_cell(cell) + " ";
    text += "|\n";
  }
  return fmt::format("{}\n{}\n", text, fmt::join(table.notes, " "));
}

std::string csv(const FilledTable& table) {
  std::string text =
      "table,model,compression,block,policy,label,group,budget,column,measure,mean,low,high,"
      "prompts,best\n";
  for (const FilledTable::Row& row : table.rows) {
    for (const TableCell& cell : row.cells) {
      const std::string mean = cell.value ? fmt::format("{}", cell.value->mean) : "";
      const std::string ends = cell.value && cell.interval
                                   ? fmt::format("{},{}", cell.value->low, cell.value->high)
                                   : ",";
      text += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", table.table->name,
          doubled_quotes(row.model), row.compression, table.block, doubled_quotes(cell.policy),
          doubled_quotes(cell.label), doubled_quotes(cell.group), doubled_quotes(cell.budget),
          doubled_quotes(cell.column), cell.measure, mean, ends, cell.prompts, cell.best ? 1 : 0);
    }
  }
  return text;
}

/// A text as LaTeX shows it.
std::string latex(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '\\':
        result += "\\textbackslash{}";
        break;
      case '~':
        result += "\\textasciitilde{}";
        break;
      case '^':
        result += "\\textasciicircum{}";
        break;
      case '&':
      case '%':
      case '$':
      case '#':
      case '_':
      case '{':
      case '}':
        result += '\\';
        [[fallthrough]];
      default:
        result += c;
    }
  }
  const std::pair<std::string_view, std::string_view> symbols[] = {
      {"σ", "$\\sigma$"}, {"Δ", "$\\Delta$"}, {"–", "--"}, {"†", "$^{\\dagger}$"}, {"−", "$-$"}};
  for (const auto& [from, to] : symbols) {
    for (std::size_t at = 0; (at = result.find(from, at)) != std::string::npos; at += to.size())
      result.replace(at, from.size(), to);
  }
  return result;
}

std::string latex_cell(const TableCell& cell) {
  if (!cell.value) return "--";
  std::string text = number(cell.value->mean, cell.decimals);
  if (cell.best) text = "\\textbf{" + text + "}";
  if (is_partial(cell)) text += "$^{\\dagger}$";
  const std::string ends = interval(cell);
  return ends.empty() ? text : text + "{\\scriptsize" + ends + "}";
}

std::string latex_table(const FilledTable& table) {
  const std::size_t columns = flat_heads(table).size();
  const auto labels = static_cast<std::size_t>(table.label_columns);
  std::string text = fmt::format(
      "% {}. Needs \\usepackage{{booktabs}} and, for \\resizebox, \\usepackage{{graphicx}}.\n"
      "\\begin{{table}}\n\\centering\n\\caption{{{}. {}}}\n\\resizebox{{\\textwidth}}{{!}}{{%\n"
      "\\begin{{tabular}}{{{}{}}}\n\\toprule\n",
      table.table->name, latex(table.table->title),
      latex(fmt::format("{}", fmt::join(table.notes, " "))), std::string(labels, 'l'),
      std::string(columns - labels, 'c'));
  for (const std::vector<TableHead>& line : table.head) {
    std::string rules;
    std::size_t column = 1;
    for (std::size_t h = 0; h < line.size(); ++h) {
      const auto span = static_cast<std::size_t>(line[h].span);
      text += h == 0 ? "" : " & ";
      text += span == 1 ? latex(line[h].text)
                        : fmt::format("\\multicolumn{{{}}}{{c}}{{{}}}", span, latex(line[h].text));
      if (span > 1 && !line[h].text.empty())
        rules += fmt::format("\\cmidrule(lr){{{}-{}}}", column, column + span - 1);
      column += span;
    }
    text += " \\\\\n" + (rules.empty() ? "" : rules + "\n");
  }
  for (const FilledTable::Row& row : table.rows) {
    if (row.first_of_part) {
      text += "\\midrule\n";
      if (names_parts(table)) {
        text += fmt::format("\\multicolumn{{{}}}{{l}}{{\\emph{{{}}}}} \\\\\n", columns,
                            latex(part_name(row)));
      }
    }
    std::vector<std::string> cells;
    for (const std::string& label : row.labels) cells.push_back(latex(label));
    for (const TableCell& cell : row.cells) cells.push_back(latex_cell(cell));
    text += fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  }
  return text + "\\bottomrule\n\\end{tabular}}\n\\end{table}\n";
}
}  // namespace

TableForm table_form(const std::string& target) {
  const std::string extension = std::filesystem::path(target).extension().string();
  if (target == "-" || extension == ".md") return TableForm::markdown;
  if (extension == ".csv") return TableForm::csv;
  if (extension == ".tex") return TableForm::latex;
  throw UsageError("-o " + in_one_line(target, 200) +
                   ": a table is written as .md, .csv or .tex; choose one of these endings");
}

std::string table_text(const FilledTable& table, TableForm form) {
  switch (form) {
    case TableForm::csv:
      return csv(table);
    case TableForm::latex:
      return latex_table(table);
    case TableForm::markdown:
      break;
  }
  return markdown(table);
}

}  // namespace kvloupe
