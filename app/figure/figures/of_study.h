#pragma once
// The common part of the figures made from the results of a study: the measure, policy, budget and
// block size of the file that they show, and the names of these.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analysis/evaluation/evaluation.h"
#include "analysis/study/study_measures.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"
#include "app/figure/figure.h"
#include "app/figure/figures/line_panels.h"
#include "app/plot/value_axis.h"

namespace kvloupe::figure {

/// A catalogue line with the needs of such a figure.
FigureInfo study_figure(std::string name, std::string title, std::string tooltip, Compute compute,
                        double width_mm = kColumn, double aspect = 1.0);

/// Typed choices under their usual names. "first" is the file's first.
ChoiceInfo study_measure_choice();
ChoiceInfo study_policy_choice();
ChoiceInfo study_budget_choice(std::string by_default = "first");
ChoiceInfo study_block_choice();

/// A measure as it is named in a results file, also where this program does not know it.
StudyMeasure described(const std::string& measure);
/// Its title with its unit, for an axis.
std::string axis_text(const StudyMeasure& measure);
/// The range of the measure's values.
Bounds bounds_of(const StudyMeasure& measure);

/// Why a file is not a study with values, in the words of FigureInfo::unfit; empty if it is one.
std::string why_no_study(const Evaluation& evaluation);

/// The chosen measure at the chosen block size: of those with values by head alone where `by_head`,
/// else "first" is first_measure(); `only`: not the chosen but this one. Throws
/// UsageError for names that the file does not have, with those that it has, and WorkError where no
/// item with values is done.
MeasureTable chosen_table(const FigureInput& input, bool by_head = false,
                          const std::string& only = "");
/// Places in the table of what is chosen. Throw UsageError for what it does not have.
std::size_t chosen_policy(const FigureInput& input, const MeasureTable& table);
std::size_t chosen_budget(const FigureInput& input, const MeasureTable& table);

/// A choice of a measure with values by head, under a name of its own: an axis, say.
ChoiceInfo head_measure_choice(std::string name, std::string title, std::string tooltip,
                               std::string by_default = "first");
/// The measures of the file with values of heads or layers, in its order.
std::vector<std::string> measures_by_head(const StudyTable& study);
/// The measure that such a choice names; "first" and "second" are places in the file. Throws
/// UsageError for one that the file does not have by head.
std::string chosen_head_measure(const FigureInput& input, const std::string& choice);

/// A measure of every head at the chosen policy, budget and block.
struct ChosenHeads {
  MeasureTable table;
  std::size_t policy = 0, budget = 0;
  HeadMeasureTable heads;
};
/// Throws as chosen_table(), and WorkError for heads of several models (require_one_model()).
ChosenHeads chosen_heads(const FigureInput& input, const std::string& measure);
/// Why a file has no values by head, in the words of FigureInfo::unfit; empty where it has.
std::string why_no_heads(const Evaluation& evaluation);

/// The names that a choice can take for this file, in the figure with these choices; for lists. The
/// default comes first, and stands alone if the file has no values for these choices.
std::vector<std::string> names_in_study(const FigureInfo& info, const Choices& choices,
                                        const std::shared_ptr<const Evaluation>& evaluation,
                                        const ChoiceInfo& choice);

/// Policies over budgets on a logarithmic axis: the mean of each with its interval or, of fewer
/// prompts than kFewestForBootstrap, with the prompts themselves. These stand side by side around
/// their budget's place, first those of the first policy, over half of the way to the next budget.
class BudgetCurves {
 public:
  /// `places` of the budgets, ascending; of so many policies at most so many prompts.
  BudgetCurves(const std::vector<double>& places, std::size_t policies, std::size_t prompts);
  void add_policy(const std::string& name, int look);
  /// A budget of the last policy, and what is known on each prompt.
  void add(double place, const MeanInterval& mean, const std::vector<double>& numbers);
  bool has_dots() const;
  /// The policies with any budget; without an axis of y.
  LinePanels::Panel panel(bool percent) const;

  ValueRange y;

 private:
  double width_ = 0.3;  // of the logarithm
  std::size_t policies_, prompts_;
  ValueRange x_;
  std::vector<LinePanels::Line> means_, dots_;
  std::vector<LinePanels::Band> bands_;
};

/// The number in "25%"; nothing for another budget.
std::optional<double> percent_of(const std::string& budget);
/// What the names chosen in a figure stand for, by choice: "first" and "second" as the file has
/// them, any other as it is.
std::map<std::string, std::string> names_meant(const FigureInfo& info, const Choices& choices,
                                               const std::shared_ptr<const Evaluation>& evaluation);

/// The results in one line: "needles.sqlite · SmolLM2.gguf · 3 prompts".
std::string results_text(const Evaluation& evaluation);

/// A budget for a title: "20%", "128 entries".
std::string budget_text(const std::string& budget);
/// "12 traces" of a study of replays, "12 prompts" of a task.
std::string prompts_text(const MeasureTable& table, long count);
/// The source of the values, for a caption: " (needle, in the model's cache)"; empty for replays.
std::string task_text(const StudyMeasure& measure);
/// Short names of a table's prompts, all different: without task, folder and ending; of lines of
/// one file their numbers, "#12".
std::vector<std::string> prompt_names(const std::vector<std::string>& prompts);
/// The end of a caption: how far an unfinished study is; before it why the figure shows the measure
/// `by_default`, where nobody chose one.
std::string closing_text(const FigureInput& input, const std::string& by_default = "");

/// A catalogue line with the needs of such a figure; `verb` of kvloupe-capture writes the results.
FigureInfo evaluation_figure(std::string name, std::string title, std::string tooltip,
                             Compute compute, double width_mm = kColumn, double aspect = 1.0,
                             const char* verb = "eval");

/// Why a file is not of kvloupe-capture eval: the one line that sends a person to what shows it.
/// Empty where it is.
std::string why_no_evaluation(const Evaluation& evaluation);

/// The evaluated budget nearest to the one chosen, as written; a count is of the mean prompt. Empty
/// where only the full cache was run.
std::string evaluated_budget(const FigureInput& input);

}  // namespace kvloupe::figure
