#pragma once
// Tables in the layouts of published papers, filled from results files of studies.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/base/text/table.h"
#include "analysis/replay/measure/measure.h"
#include "analysis/study/study_statistics.h"

namespace kvloupe {

/// A policy as a paper's table names it.
struct PaperPolicy {
  std::string spec;   // in any spelling
  std::string label;  // of its row or column
  std::string group;  // what a modifier was added to; empty: the table has no groups
};

/// The arrangement of rows and columns.
enum class PaperLayout {
  /// Down: model, then policy, then budget, the full cache first. Across: tasks, and their average.
  tasks_across,
  /// Down: model, then budget. Across: groups of policies. A cell is the mean over all prompts.
  policies_across,
  /// Down: model with its compression, then task, and their average. Across: the full cache, then
  /// group, budget and policy.
  settings_across,
  /// Down: model and budget, then policy, the full cache first and chance last. Across: tasks,
  /// and their average. Cells that do not differ from the best beyond chance are marked.
  board
};

/// One table of a paper.
struct PaperTable {
  std::string name;         // on the command line
  std::string title;        // the paper, and the table's number there
  std::string what;         // what it compares, in a sentence
  std::string policy_head;  // head of the policies' column
  PaperLayout layout = PaperLayout::tasks_across;
  std::vector<std::string> measures;  // those of the study that are shown, unless others are chosen
  bool percent = true;                // measures that are shares, with one digit; else with three
  std::vector<PaperPolicy> policies;  // of a board: none, since it has those of the results
};

std::span<const PaperTable> paper_tables();
/// Throws UsageError, with the nearest name and all of them.
const PaperTable& require_paper_table(std::string_view name);

/// The choices of a filled table.
struct TableChoice {
  std::string block;                  // as the study has it; empty: its first
  std::vector<std::string> measures;  // of the results; empty: the paper table's, or the first
};

/// One number of a table.
struct TableCell {
  std::string policy, label, group, budget;  // empty or "full" where it has none
  std::string column, measure;               // the task, as its head says, and what was measured
  std::optional<MeanInterval> value;         // scaled; none: not there
  bool interval = true;                      // whether low and high are known
  int prompts = 0, wanted = 0;               // with a value, and those of the study
  Better better = Better::neither;           // of the measure
  bool best = false;                         // of the policies that it is compared with
  bool ties = false;  // of a board: the paired interval of the difference from the best holds 0
  int decimals = 1;   // −1: four significant digits
};

/// A table with its numbers, before it is written in some form.
struct FilledTable {
  struct Row {
    std::string model, compression;  // of its results file
    std::vector<std::string> labels;
    std::vector<TableCell> cells;
    bool first_of_part = false;  // a rule stands above
    std::string budget = {};     // of a board, in words: what its first row stands under
  };
  const PaperTable* table = nullptr;
  std::string block;
  std::vector<Table::Head> upper;  // over the columns; the spans cover all
  std::vector<Table::Column> columns;
  std::vector<Row> rows;
  std::vector<std::string> notes;  // sentences below the table
};

/// Fills a table from results files, each a part of it: a model, or a compression. A cell without
/// a value for any prompt is missing, and one with values for a part of the study's prompts says
/// so. Best is the best mean of the policies at the same budget (of the same group, where the
/// layout is settings_across) by the measure's direction; not where all are equal. Intervals are
/// those of mean_interval() over prompts, or over contexts that questions share; of averages, of
/// mean_of_means(). Throws FileError as StudyResults does, UsageError for a block or measure that
/// no file has.
FilledTable fill_paper_table(const PaperTable& table,
                             const std::vector<std::filesystem::path>& results,
                             const TableChoice& choice = {});

/// The board of benchmarks: what `kvloupe study board` fills. The score is answer_all, of results
/// without it answer_found; and needle_found, where there are needles.
const PaperTable& board();
/// A budget as a board names it: a share by what is removed ("0.75 removed"), others by what is
/// kept.
std::string removed_text(const std::string& budget);

/// The forms of a file. CSV has a line per number.
enum class TableForm { markdown, csv, latex };
/// By the file's extension: .md, .csv, .tex; "-" is Markdown. Throws UsageError for others.
TableForm table_form(const std::string& target);
std::string table_text(const FilledTable& table, TableForm form);

}  // namespace kvloupe
