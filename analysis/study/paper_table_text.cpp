// A paper's table as Markdown, CSV or LaTeX.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <variant>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/study/paper_table.h"

namespace kvloupe {

namespace {
Table::Cell cell_of(const TableCell& cell) {
  if (!cell.value) return "–";
  const auto number = [&](double value) {
    return cell.decimals < 0 ? fmt::format("{:.4g}", value)
                             : fmt::format("{:.{}f}", value, cell.decimals);
  };
  Table::Cell shown = number(cell.value->mean);
  shown.best = cell.best;
  if (cell.ties) shown.mark = "≈";
  if (cell.prompts < cell.wanted) shown.mark += "†";
  if (cell.interval)
    shown.interval = fmt::format("[{}, {}]", number(cell.value->low), number(cell.value->high));
  return shown;
}

Table table_of(const FilledTable& filled) {
  Table table{.upper = filled.upper, .columns = filled.columns};
  for (const FilledTable::Row& row : filled.rows) {
    Table::Row& shown = table.rows.emplace_back();
    shown.rule = row.first_of_part;
    // The name of a results file. Where layouts have it, the first row is one of the full cache.
    if (row.first_of_part && filled.table->layout != PaperLayout::tasks_across)
      shown.part =
          fmt::format("{}, {}", row.model, row.budget.empty() ? row.compression : row.budget);
    shown.cells.assign(row.labels.begin(), row.labels.end());
    for (const TableCell& cell : row.cells) shown.cells.push_back(cell_of(cell));
  }
  return table;
}

std::string csv(const FilledTable& table) {
  std::string text =
      "table,model,compression,block,policy,label,group,budget,column,measure,mean,low,high,"
      "prompts,best";
  const bool is_board = table.table->layout == PaperLayout::board;
  text += is_board ? ",ties\n" : "\n";
  for (const FilledTable::Row& row : table.rows) {
    for (const TableCell& cell : row.cells) {
      const auto number = [&](double MeanInterval::*one, bool known) {
        return cell.value && known ? fmt::format("{}", *cell.value.*one) : std::string();
      };
      const std::string mean = number(&MeanInterval::mean, true);
      const std::string low = number(&MeanInterval::low, cell.interval);
      const std::string high = number(&MeanInterval::high, cell.interval);
      text += csv_line({table.table->name, Quoted{row.model}, row.compression, table.block,
                        Quoted{cell.policy}, Quoted{cell.label}, Quoted{cell.group},
                        Quoted{cell.budget}, Quoted{cell.column}, cell.measure, mean, low, high,
                        long{cell.prompts}, long{cell.best}});
      if (is_board) text.insert(text.size() - 1, cell.ties ? ",1" : ",0");
    }
  }
  return text;
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
  if (form == TableForm::csv) return csv(table);
  const std::string notes = fmt::format("{}", fmt::join(table.notes, " "));
  const std::string& title = table.table->title;
  if (form == TableForm::markdown)
    return fmt::format("**{}.** {}\n\n{}\n{}\n", title, table.table->what,
                       markdown_table(table_of(table)), notes);
  const std::string needs =
      ". Needs \\usepackage{booktabs} and, for \\resizebox, \\usepackage{graphicx}.";
  return latex_table(
      table_of(table),
      {.caption = title + ". " + notes, .remarks = {table.table->name + needs}, .fit_width = true});
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

const PaperTable& board() {
  static const PaperTable table{"board",
                                "Board",
                                "Policies by task and by what they remove.",
                                "Policy",
                                PaperLayout::board,
                                {"answer_all", "answer_found", "needle_found"},
                                true,
                                {}};
  return table;
}

std::string removed_text(const std::string& budget) {
  const Budget kept = parse_budget(budget);
  const auto* share = std::get_if<Percent>(&kept.value);
  return share != nullptr ? fmt::format("{:.4g} removed", 1.0 - share->value / 100.0)
                          : budget + (kept.in_bytes() ? " kept" : " entries kept");
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
