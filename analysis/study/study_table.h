#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/study/study_results.h"

namespace kvloupe {

/// A results file of a study, read: what figures and tables are made from. Values by head stay in
/// the file and are read for one setting at a time.
struct StudyTable {
  std::filesystem::path path;
  std::vector<StudyResults::Item> items;     // by their numbers
  std::vector<std::string> measures;         // in the file's order
  std::vector<std::vector<double>> values;   // [measures][items]; NaN: not known, or none
  std::vector<std::vector<char>> has_value;  // [measures][items] whether the file has a row

  /// [measures] whether the file has values of heads or layers that rank them (ranks_heads()).
  std::vector<char> by_head;
  /// For the first measure with values, at its first block size: the number of policies with a
  /// value, and the number of prompts with a value for each of these policies at one budget, for
  /// the budget with the most such prompts.
  int compared_policies = 0, compared_prompts = 0;

  long done() const;
  int measure(std::string_view name) const;  // −1: none of that name
};

/// Throws FileError as StudyResults does.
StudyTable read_study_table(const std::filesystem::path& path);

/// StudyResults::require_one_model(); read_study_table() checks the file itself.
void require_one_model(const std::filesystem::path& path);

/// The values of one measure at one block size: a mean over heads for each policy, budget and
/// prompt. A prompt is a trace of a study of replays, or a prompt of a task.
struct MeasureTable {
  std::string measure;
  std::string block;                  // as written
  std::vector<std::string> policies;  // in the order of the study; without the full cache of tasks
  std::vector<std::string> budgets;
  std::vector<std::string> prompts;
  std::vector<double> values;   // [policies, budgets, prompts]; NaN: not known
  std::vector<double> entries;  // [budgets, prompts] of the budget; NaN: not known
  std::vector<double> full;     // [prompts] with the full cache, where a task runs that; NaN: none
  std::vector<int> items;       // [policies, budgets, prompts] numbers; −1: none

  double value(std::size_t policy, std::size_t budget, std::size_t prompt) const {
    return values[at(policy, budget, prompt)];
  }
  std::size_t at(std::size_t policy, std::size_t budget, std::size_t prompt) const {
    return (policy * budgets.size() + budget) * prompts.size() + prompt;
  }
  /// [prompts] of one policy and budget.
  std::vector<double> row(std::size_t policy, std::size_t budget) const;
};

/// The block sizes at which the study has items with this measure, as written.
std::vector<std::string> blocks_of(const StudyTable& table, int measure);
/// The one asked for, or the first where `asked` is empty. Throws UsageError for another one.
std::string block_of(const StudyTable& table, int measure, const std::string& asked);
MeasureTable measure_table(const StudyTable& table, int measure, const std::string& block);

/// How many prompts or contexts have items of the task at this block size, done or not.
long prompts_of_task(const StudyTable& table, std::string_view task, const std::string& block);

/// One measure of heads, of one policy and budget: [heads, prompts].
struct HeadMeasureTable {
  struct Head {
    int layer = 0, head = -1;  // head −1: a value of the layer
    auto operator<=>(const Head&) const = default;
  };
  std::vector<Head> heads;     // ascending
  std::vector<double> values;  // [heads, prompts]; NaN: not known
  std::vector<char> has;       // [heads, prompts] whether the file has a row
};
HeadMeasureTable head_table(const StudyTable& table, const MeasureTable& of, std::size_t policy,
                            std::size_t budget);

// Which measure of a study a reader sees where nobody chose one.

/// The measures of the study that have values, in the order in which they tell most of the model's
/// answers: answers found by runs in the model; `answer_residual_change` of replays; then the other
/// measures that compare policies (compares_policies()), those of replays by how well they foretold
/// a real model's answers (foretold_answers()), then shares, then the rest; at the end measures
/// that compare no policies. Measures of the same place stand in the file's order.
std::vector<std::string> measures_in_order(const StudyTable& study);

/// The first of measures_in_order(), and why, for a reader. Both empty: the study has no values.
struct FirstMeasure {
  std::string name, why;
};
FirstMeasure first_measure(const StudyTable& study);

/// Whether more or less of a measure is better, the policy changes it, and every policy with items
/// of it has a value. `measure`: its place in study.measures.
bool compares_policies(const StudyTable& study, std::size_t measure);

/// Writes the finest values that a study kept (Reduce) as CSV, a line each: trace, policy, budget,
/// entries, block, tokens, compression, measure, layer, head, step, value; and the policy's terms
/// of comparison in words (ComparisonTerms): question, prompt_compressed, budget_counts. A cell is
/// empty where a value is of all layers and heads or of the whole replay, and where it is not
/// known. Equal results give equal bytes, however many processes computed them. "-": standard
/// output. Throws FileError.
void write_study_csv(StudyResults& results, const std::string& target);

}  // namespace kvloupe
