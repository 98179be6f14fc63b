// A paper's table as Markdown, CSV or LaTeX.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "analysis/error.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/study/paper_table.h"
#include "analysis/text.h"

namespace kvloupe {

namespace {
/// How a form writes a cell: an unknown one, the best, one of a part of the prompts, an interval.
struct CellMarks {
  const char *unknown, *best, *partial, *interval;
};
constexpr CellMarks kMarkdownMarks = {"–", "**{}**", "†", " [{}, {}]"};
constexpr CellMarks kLatexMarks = {"--", "\\textbf{{{}}}", "$^{\\dagger}$",
                                   "{{\\scriptsize [{}, {}]}}"};

std::string cell_text(const TableCell& cell, const CellMarks& marks) {
  if (!cell.value) return marks.unknown;
  const auto number = [&](double value) {
    return cell.decimals < 0 ? fmt::format("{:.4g}", value)
                             : fmt::format("{:.{}f}", value, cell.decimals);
  };
  std::string text = number(cell.value->mean);
  if (cell.best) text = fmt::format(fmt::runtime(marks.best), text);
  if (cell.prompts < cell.wanted) text += marks.partial;
  if (!cell.interval) return text;
  return text + fmt::format(fmt::runtime(marks.interval), number(cell.value->low),
                            number(cell.value->high));
}

/// The name of a results file, before its first row. Empty if the file's rows begin with one of the
/// full cache.
std::string part_name(const FilledTable& table, const FilledTable::Row& row) {
  const bool named = row.first_of_part && table.table->layout != PaperLayout::tasks_across;
  return named ? fmt::format("{}, {}", row.model, row.compression) : std::string();
}

std::string markdown(const FilledTable& table) {
  // The heads of each column, from the top, those that are empty left out.
  std::vector<std::string> heads;
  for (const std::vector<TableHead>& line : table.head) {
    std::size_t column = 0;
    for (const TableHead& head : line) {
      for (int i = 0; i < head.span; ++i, ++column) {
        if (heads.size() <= column) heads.emplace_back();
        if (!head.text.empty()) heads[column] += (heads[column].empty() ? "" : ", ") + head.text;
      }
    }
  }
  std::string text = fmt::format("**{}.** {}\n\n", table.table->title, table.table->what);
  for (const std::string& head : heads) text += "| " + table_cell(head) + " ";
  text += "|\n";
  for (std::size_t c = 0; c < heads.size(); ++c)
    text += static_cast<int>(c) < table.label_columns ? "| --- " : "| ---: ";
  text += "|\n";
  for (const FilledTable::Row& row : table.rows) {
    if (const std::string name = part_name(table, row); !name.empty()) {
      text += "| *" + table_cell(name) + "* ";
      for (std::size_t c = 1; c < heads.size(); ++c) text += "| ";
      text += "|\n";
    }
    for (const std::string& label : row.labels) text += "| " + table_cell(label) + " ";
    for (const TableCell& cell : row.cells) text += "| " + cell_text(cell, kMarkdownMarks) + " ";
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
      const bool ends = cell.value && cell.interval;
      text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", table.table->name,
                          doubled_quotes(row.model), row.compression, table.block,
                          doubled_quotes(cell.policy), doubled_quotes(cell.label),
                          doubled_quotes(cell.group), doubled_quotes(cell.budget),
                          doubled_quotes(cell.column), cell.measure, mean,
                          ends ? fmt::format("{},{}", cell.value->low, cell.value->high) : ",",
                          cell.prompts, cell.best ? 1 : 0);
    }
  }
  return text;
}

std::string latex_table(const FilledTable& table) {
  const std::size_t columns = table.head.back().size();
  std::string text = fmt::format(
      "% {}. Needs \\usepackage{{booktabs}} and, for \\resizebox, \\usepackage{{graphicx}}.\n"
      "\\begin{{table}}\n\\centering\n\\caption{{{}. {}}}\n\\resizebox{{\\textwidth}}{{!}}{{%\n"
      "\\begin{{tabular}}{{{:l<{}}{:c<{}}}}\n\\toprule\n",
      table.table->name, latex_text(table.table->title),
      latex_text(fmt::format("{}", fmt::join(table.notes, " "))), "", table.label_columns, "",
      columns - static_cast<std::size_t>(table.label_columns));
  const auto add_line = [&](const std::vector<std::string>& cells) {
    text += fmt::format("{} \\\\\n", fmt::join(cells, " & "));
  };
  for (const std::vector<TableHead>& line : table.head) {
    std::vector<std::string> cells;
    std::string rules;
    int column = 1;
    for (const TableHead& head : line) {
      const bool wide = head.span > 1;
      cells.push_back(
          wide ? fmt::format("\\multicolumn{{{}}}{{c}}{{{}}}", head.span, latex_text(head.text))
               : latex_text(head.text));
      if (wide && !head.text.empty())
        rules += fmt::format("\\cmidrule(lr){{{}-{}}}", column, column + head.span - 1);
      column += head.span;
    }
    add_line(cells);
    if (!rules.empty()) text += rules + "\n";
  }
  for (const FilledTable::Row& row : table.rows) {
    if (row.first_of_part) text += "\\midrule\n";
    if (const std::string name = part_name(table, row); !name.empty())
      add_line(
          {fmt::format("\\multicolumn{{{}}}{{l}}{{\\emph{{{}}}}}", columns, latex_text(name))});
    std::vector<std::string> cells;
    for (const std::string& label : row.labels) cells.push_back(latex_text(label));
    for (const TableCell& cell : row.cells) cells.push_back(cell_text(cell, kLatexMarks));
    add_line(cells);
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
  if (form == TableForm::markdown) return markdown(table);
  return form == TableForm::csv ? csv(table) : latex_table(table);
}

// The catalogue of papers' tables: one entry each.

namespace {
/// "spec|label|group" of each; without a group the last is left out.
std::vector<PaperPolicy> paper_policies(const std::vector<std::string>& lines) {
  std::vector<PaperPolicy> policies;
  for (const std::string& line : lines) {
    const std::size_t label = line.find('|'), group = line.find('|', label + 1);
    policies.push_back({line.substr(0, label), line.substr(label + 1, group - label - 1),
                        group == std::string::npos ? "" : line.substr(group + 1)});
  }
  return policies;
}
}  // namespace

std::span<const PaperTable> paper_tables() {
  using Layout = PaperLayout;
  // Scores that are better the larger, in percent: the measures that replace a benchmark's scores.
  static const std::vector<std::string> scores = {"needle_found", "answer_found",
                                                  "perplexity_same_top1"};
  static const std::vector<PaperTable> all = {
      {"keydiff-8", "KeyDiff, table 8", "Six policies at four budgets on all tasks.", "Method",
       Layout::tasks_across, scores, true,
       paper_policies({"h2o|H2O", "tova|TOVA", "sink|Sink", "snapkv|SnapKV", "keynorm|KeyL2Norm",
                       "keydiff|KeyDiff"})},
      {"keydiff-11", "KeyDiff, table 11",
       "KeyDiff with a part of the budget for the last tokens, on all tasks.", "Method",
       Layout::tasks_across, scores, true,
       paper_policies({"sink|Sink", "snapkv|SnapKV",
                       "keydiff+recent(10%)|KeyDiff + 10% Recent Tokens",
                       "keydiff+recent(20%)|KeyDiff + 20% Recent Tokens", "keydiff|KeyDiff"})},
      {"caote-5",
       "CAOTE, table 5",
       "Needles found by three policies without and with CAOTE.",
       "Budget",
       Layout::policies_across,
       {"needle_found"},
       false,
       paper_policies({"h2o||H2O", "h2o+caote|+CAOTE|H2O", "h2o+fastcaote|+FastCAOTE|H2O",
                       "tova||TOVA", "tova+caote|+CAOTE|TOVA", "tova+fastcaote|+FastCAOTE|TOVA",
                       "snapkv||SnapKV", "snapkv+caote|+CAOTE|SnapKV",
                       "snapkv+fastcaote|+FastCAOTE|SnapKV"})},
      {"criticalkv-1", "CriticalKV, tables 1 and 2",
       "Two policies without and with the two stages of CriticalKV, by task.", "Domain",
       Layout::settings_across, scores, true,
       paper_policies({"snapkv(pool=max)|w/o ours|SnapKV",
                       "snapkv(pool=max)+critical|w/ ours|SnapKV",
                       "snapkv(pool=max)+adakv|w/o ours|AdaKV",
                       "snapkv(pool=max)+adakv+critical|w/ ours|AdaKV"})},
      {"kvmerger-3", "KVMerger, table 3", "Widths of the Gaussian that weights merged entries.",
       "σ", Layout::tasks_across, scores, true,
       paper_policies({"h2o+kvmerger(auto,sigma=0.5)|0.5", "h2o+kvmerger(auto,sigma=1)|1",
                       "h2o+kvmerger(auto,sigma=2)|2", "h2o+kvmerger(auto,sigma=3)|3",
                       "h2o+kvmerger(auto,sigma=4)|4", "h2o+kvmerger(auto,sigma=5)|5",
                       "h2o+kvmerger(auto,sigma=6)|6"})}};
  return all;
}

const PaperTable& require_paper_table(std::string_view name) {
  std::vector<std::string> names;
  for (const PaperTable& table : paper_tables()) {
    if (table.name == name) return table;
    names.push_back(table.name);
  }
  throw UsageError(
      fmt::format("--table {}: there is no such table; the nearest is '{}'. The tables are {}",
                  in_one_line(name), nearest_word(name, names), fmt::join(names, ", ")));
}

}  // namespace kvloupe
