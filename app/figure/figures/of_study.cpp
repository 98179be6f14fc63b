#include "app/figure/figures/of_study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <filesystem>
#include <set>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/nearest_word.h"
#include "analysis/study/study_statistics.h"
#include "analysis/study/study_table.h"
#include "analysis/study/study_traces.h"
#include "app/plot/ticks.h"

namespace kvloupe::figure {

namespace {

constexpr const char* kFirst = "first";
constexpr const char* kSecond = "second";

/// Whether a figure needs values of heads.
bool is_of_heads(const FigureInfo& info) { return info.unfit == why_no_heads; }

/// The measures of the file with values; `by_head`: with values of heads or layers.
std::vector<std::string> measures_with_values(const StudyTable& study, bool by_head) {
  std::vector<std::string> measures;
  for (std::size_t m = 0; m < study.measures.size(); ++m) {
    const std::vector<char>& has = study.has_value[m];
    if (by_head && study.by_head[m] == 0) continue;
    if (std::find(has.begin(), has.end(), 1) != has.end()) measures.push_back(study.measures[m]);
  }
  return measures;
}

ChoiceInfo name_choice(std::string name, std::string title, std::string tooltip,
                       std::string by_default) {
  return {std::move(name),
          std::move(title),
          std::move(tooltip),
          {std::move(by_default)},
          ChoiceKind::name};
}

/// The place of a chosen name among those of the file.
std::size_t place_of(const FigureInfo& info, const char* what, const std::string& chosen,
                     const std::vector<std::string>& names, const char* noun = nullptr) {
  if (chosen == kFirst && !names.empty()) return 0;
  const auto found = std::find(names.begin(), names.end(), chosen);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::vector<std::string> shown;
  for (const std::string& name : names) shown.push_back(in_one_line(name, 80));
  if (!ranks_heads(chosen)) {
    throw UsageError(
        fmt::format("{}={}: figure {}: all heads have the same value, so it ranks no heads; "
                    "measures with values by head: {}",
                    what, chosen, info.name, fmt::join(shown, ", ")));
  }
  throw UsageError(
      fmt::format("{}={}: figure {}: the study has no such {}; did you mean '{}'? It has: {}", what,
                  chosen, info.name, noun != nullptr ? noun : what, nearest_word(chosen, shown),
                  fmt::join(shown, ", ")));
}

/// Whether a choice names a measure by head.
bool is_head_measure(const ChoiceInfo& choice) {
  return choice.name == "x" || choice.name == "y" || choice.name == "colour";
}

}  // namespace

FigureInfo study_figure(std::string name, std::string title, std::string tooltip, Compute compute,
                        double width_mm, double aspect) {
  FigureInfo info = figure_info(std::move(name), std::move(title),
                                std::move(tooltip) + ". From the results file of kvloupe study",
                                Topic::comparisons, compute, width_mm, aspect);
  info.needs = {.fewest_traces = 0, .most_traces = 0, .evaluation = true};
  info.unfit = why_no_study;
  return info;
}

std::string why_no_study(const Evaluation& evaluation) {
  if (evaluation.task != Evaluation::Task::study)
    return "has no study; give the results file that kvloupe study wrote";
  if (evaluation.study->compared_policies == 0)
    return "has no values yet; let the study finish some items first";
  return {};
}

ChoiceInfo study_measure_choice() {
  return name_choice(
      "measure", "Measure",
      "A measure of the study; first: answers found by the model, else the number "
      "of a replay that foretold answers best; of heads, the first in the study file",
      kFirst);
}

ChoiceInfo head_measure_choice(std::string name, std::string title, std::string tooltip,
                               std::string by_default) {
  return name_choice(std::move(name), std::move(title), std::move(tooltip), std::move(by_default));
}

std::vector<std::string> measures_by_head(const StudyTable& study) {
  return measures_with_values(study, true);
}

std::string chosen_head_measure(const FigureInput& input, const std::string& choice) {
  const std::vector<std::string> measures = measures_by_head(*input.evaluation->study);
  const std::string& chosen = input.choice(choice);
  if (chosen == kSecond) return measures.at(std::min<std::size_t>(1, measures.size() - 1));
  return measures[place_of(*input.info, choice.c_str(), chosen, measures, "measure by head")];
}

ChosenHeads chosen_heads(const FigureInput& input, const std::string& measure) {
  const StudyTable& study = *input.evaluation->study;
  ChosenHeads chosen;
  chosen.table = chosen_table(input, true, measure);
  chosen.policy = chosen_policy(input, chosen.table);
  chosen.budget = chosen_budget(input, chosen.table);
  chosen.heads = head_table(study, chosen.table, chosen.policy, chosen.budget);
  require_one_model(study, chosen.table, chosen.heads);
  return chosen;
}

std::string why_no_heads(const Evaluation& evaluation) {
  if (std::string why = why_no_study(evaluation); !why.empty()) return why;
  const std::vector<char>& by_head = evaluation.study->by_head;
  if (std::find(by_head.begin(), by_head.end(), 1) != by_head.end()) return {};
  return "has no values by head (those equal for all heads do not count); a study keeps them with "
         "\"reduce\": \"steps\" or \"none\" and a measure such as answer_residual_part";
}

ChoiceInfo study_policy_choice() {
  return name_choice("policy", "Policy", "A policy of the study; first: the first in the file",
                     kFirst);
}

ChoiceInfo study_budget_choice(std::string by_default) {
  return name_choice("budget", "Budget",
                     "A budget of the study as its file writes it, such as 20%; first: the first "
                     "in the file",
                     std::move(by_default));
}

ChoiceInfo study_block_choice() {
  return name_choice("block", "Block",
                     "A block size of the study, all or capture; first: the first in the file",
                     kFirst);
}

StudyMeasure described(const std::string& measure) {
  if (auto known = find_study_measure(measure)) return *known;
  StudyMeasure unknown;
  unknown.name = unknown.title = measure;
  unknown.task = kReplayTask;
  return unknown;
}

std::string axis_text(const StudyMeasure& measure) {
  return measure.unit.empty() ? measure.title : measure.title + " [" + measure.unit + "]";
}

Bounds bounds_of(const StudyMeasure& measure) { return measure.share ? kShare : Bounds{}; }

MeasureTable chosen_table(const FigureInput& input, bool by_head, const std::string& only) {
  const StudyTable& study = *input.evaluation->study;
  const std::vector<std::string> measures = measures_with_values(study, by_head);
  const std::string path = study.path.string();
  if (measures.empty()) throw WorkError(path + ": has no values yet; let the study go on first");
  const std::string& chosen = only.empty() ? input.choice("measure") : only;
  std::string name;
  if (!by_head && chosen == kFirst) name = first_measure(study).name;
  if (name.empty()) name = measures[place_of(*input.info, "measure", chosen, measures)];
  const int measure = study.measure(name);
  const std::vector<std::string> blocks = blocks_of(study, measure);
  MeasureTable table = measure_table(
      study, measure, blocks[place_of(*input.info, "block", input.choice("block"), blocks)]);
  if (table.values.empty()) {
    throw WorkError(
        fmt::format("{}: measure {}: no item of a policy is done yet; let the study go on first",
                    path, table.measure));
  }
  return table;
}

std::size_t chosen_policy(const FigureInput& input, const MeasureTable& table) {
  const std::string& chosen = input.choice("policy");
  if (chosen == kFirst) return 0;
  // Two spellings can name one policy: compare the parsed form.
  std::string spec = chosen;
  try {
    spec = parse_policy(chosen).text();
  } catch (const UsageError&) {
    // No policy of this program: perhaps one of the file's all the same.
  }
  return place_of(*input.info, "policy", spec, table.policies);
}

std::size_t chosen_budget(const FigureInput& input, const MeasureTable& table) {
  return place_of(*input.info, "budget", input.choice("budget"), table.budgets);
}

std::vector<std::string> names_in_study(const FigureInfo& info, const Choices& choices,
                                        const std::shared_ptr<const Evaluation>& evaluation,
                                        const ChoiceInfo& choice) {
  std::vector<std::string> names = {choice.values.front()};
  const auto add = [&](const std::vector<std::string>& more) {
    for (const std::string& name : more) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  };
  if (evaluation == nullptr || evaluation->study == nullptr) return names;
  const StudyTable& study = *evaluation->study;
  if (choice.name == "measure") {
    add(measures_with_values(study, is_of_heads(info)));
    return names;
  }
  if (is_head_measure(choice)) {
    add(measures_by_head(study));
    return names;
  }
  FigureInput input;
  input.info = &info;
  input.evaluation = evaluation;
  input.choices = choices;
  try {
    if (choice.name == "block") input.choices.erase("block");
    const bool has_measure =
        std::any_of(info.choices.begin(), info.choices.end(),
                    [](const ChoiceInfo& one) { return one.name == "measure"; });
    std::string only = has_measure ? "" : kAgreement;
    // One that shows several measures: any of them tells.
    if (is_of_heads(info) && (!has_measure || figure::choice(info, choices, "measure") == "all"))
      only = measures_by_head(study).at(0);
    const MeasureTable table = chosen_table(input, is_of_heads(info), only);
    if (choice.name == "policy") add(table.policies);
    if (choice.name == "budget") add(table.budgets);
    if (choice.name == "block") add(blocks_of(study, study.measure(table.measure)));
  } catch (const std::exception&) {
    // The picture shows the error of the other choices.
  }
  return names;
}

BudgetCurves::BudgetCurves(const std::vector<double>& places, std::size_t policies,
                           std::size_t prompts)
    : policies_(policies), prompts_(std::min<std::size_t>(prompts, kFewestForBootstrap - 1)) {
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (places[i] > places[i - 1] && places[i - 1] > 0.0)
      width_ = std::min(width_, 0.5 * std::log(places[i] / places[i - 1]));
  }
}

void BudgetCurves::add_policy(const std::string& name, int look) {
  means_.push_back({.name = name, .look = look, .marked = true});
  dots_.push_back({.look = look, .thin = true, .marks_only = true, .id = name});
  LinePanels::Band& band = bands_.emplace_back();
  band.look = look;
  band.low_id = name + ", low_95";
  band.high_id = name + ", high_95";
}

void BudgetCurves::add(double place, const MeanInterval& mean, const std::vector<double>& numbers) {
  means_.back().points.push_back({place, mean.mean});
  x_.add(place);
  y.add(mean.mean);
  if (numbers.size() >= kFewestForBootstrap) {
    bands_.back().x.push_back(place);
    bands_.back().low.push_back(mean.low);
    bands_.back().high.push_back(mean.high);
    y.add(mean.low);
    y.add(mean.high);
    return;
  }
  const auto lanes = static_cast<double>(policies_ * prompts_);
  auto lane = static_cast<double>(static_cast<std::size_t>(means_.back().look) * prompts_);
  for (const double number : numbers) {
    const double at = place * std::exp(width_ * ((lane + 0.5) / lanes - 0.5));
    dots_.back().points.push_back({at, number});
    x_.add(at);
    y.add(number);
    lane += 1.0;
  }
}

bool BudgetCurves::has_dots() const {
  return std::any_of(dots_.begin(), dots_.end(),
                     [](const LinePanels::Line& line) { return !line.points.empty(); });
}

LinePanels::Panel BudgetCurves::panel(bool percent) const {
  LinePanels::Panel panel;
  for (std::size_t p = 0; p < means_.size(); ++p) {
    for (const LinePanels::Line* line : {&means_[p], &dots_[p]}) {
      if (!line->points.empty()) panel.lines.push_back(*line);
    }
    if (!bands_[p].x.empty()) panel.bands.push_back(bands_[p]);
  }
  panel.x = x_axis(percent ? "Budget (% of the prompt)" : "Budget N (entries)", x_.padded_log(),
                   AxisScale::log);
  panel.y_grid = true;
  return panel;
}

std::optional<double> percent_of(const std::string& budget) {
  double value = 0.0;
  const char* end = budget.data() + budget.size();
  const auto [rest, error] = std::from_chars(budget.data(), end, value);
  if (error != std::errc() || rest + 1 != end || *rest != '%' || !(value > 0.0))
    return std::nullopt;
  return value;
}

std::map<std::string, std::string> names_meant(
    const FigureInfo& info, const Choices& choices,
    const std::shared_ptr<const Evaluation>& evaluation) {
  std::map<std::string, std::string> meant;
  for (const ChoiceInfo& choice : info.choices) {
    if (choice.kind != ChoiceKind::name) continue;
    std::string& name = meant[choice.name];
    name = figure::choice(info, choices, choice.name);
    if (name != kFirst && name != kSecond) continue;
    const std::vector<std::string> names = names_in_study(info, choices, evaluation, choice);
    if (names.size() > 1)
      name = names[std::min<std::size_t>(name == kSecond ? 2 : 1, names.size() - 1)];
    if (choice.name != "measure" || names.size() < 2) continue;
    FigureInput input;
    input.info = &info;
    input.evaluation = evaluation;
    input.choices = choices;
    try {
      name = chosen_table(input, is_of_heads(info)).measure;
    } catch (const std::exception&) {
      // The picture shows the error of the other choices.
    }
  }
  return meant;
}

std::string results_text(const Evaluation& evaluation) {
  std::string text = evaluation.path.filename().string();
  const auto add = [&](std::size_t count, const char* noun) {
    if (count > 0)
      text += fmt::format(" · {} {}{}", format_count(static_cast<long>(count)), noun,
                          count == 1 ? "" : "s");
  };
  if (!evaluation.model.empty())
    text += " · " + std::filesystem::path(evaluation.model).filename().string();
  if (!evaluation.study) {
    add(evaluation.runs.size(), "run");
    return text;
  }
  std::set<std::string> traces, prompts;
  for (const StudyResults::Item& item : evaluation.study->items)
    (item.task == kReplayTask ? traces : prompts).insert(item.trace);
  add(traces.size(), "trace");
  add(prompts.size(), "prompt");
  return text;
}

std::string budget_text(const std::string& budget) {
  return budget.ends_with('%') ? budget : budget + " entries";
}

std::string prompts_text(const MeasureTable& table, long count) {
  const bool replays = described(table.measure).task == kReplayTask;
  return fmt::format("{} {}{}", format_count(count), replays ? "trace" : "prompt",
                     count == 1 ? "" : "s");
}

std::string task_text(const StudyMeasure& measure) {
  if (measure.task == kReplayTask) return {};
  return " (task " + measure.task + ", with the policy in the model's own cache)";
}

std::vector<std::string> prompt_names(const std::vector<std::string>& prompts) {
  std::vector<std::string> names;
  std::set<std::string> files, different;
  for (const std::string& prompt : prompts) {
    const std::size_t task = prompt.find(": ");
    std::string name = prompt.substr(task == std::string::npos ? 0 : task + 2);
    name.erase(0, name.rfind('/') + 1);
    for (const char* ending : {".h5", ".txt", ".md"}) {
      if (name.size() > std::string_view(ending).size() && name.ends_with(ending))
        name.resize(name.size() - std::string_view(ending).size());
    }
    files.insert(name.substr(0, name.rfind('#')));
    different.insert(name);
    names.push_back(std::move(name));
  }
  if (different.size() < prompts.size()) return prompts;
  // Lines of one file: their numbers.
  if (files.size() == 1 && prompts.size() > 1) {
    for (std::string& name : names) name.erase(0, name.rfind('#'));
  }
  return names;
}

std::string closing_text(const FigureInput& input, const std::string& by_default) {
  const StudyTable& study = *input.evaluation->study;
  std::string text;
  if (!by_default.empty() && input.choice("measure") == kFirst) {
    const FirstMeasure first = first_measure(study);
    if (first.name == by_default)
      text = " No measure was chosen: this is " + first.name + ". " + first.why;
  }
  const long done = study.done();
  const auto all = static_cast<long>(study.items.size());
  if (done == all) return text;
  return text + fmt::format(" The study is not finished: {} of {} items are done.",
                            format_count(done), format_count(all));
}

FigureInfo evaluation_figure(std::string name, std::string title, std::string tooltip,
                             Compute compute, double width_mm, double aspect, const char* verb) {
  FigureInfo info = study_figure(std::move(name), std::move(title), "", compute, width_mm, aspect);
  info.tooltip = std::move(tooltip) + ". From the results of kvloupe-capture " + verb;
  info.topic = Topic::model_cache;
  info.unfit = why_no_evaluation;
  return info;
}

std::string why_no_evaluation(const Evaluation& evaluation) {
  if (evaluation.task == Evaluation::Task::rescue) {
    return "has the results of kvloupe-capture rescue; show figure rescue, or give results of "
           "kvloupe-capture eval";
  }
  if (evaluation.task == Evaluation::Task::study) {
    return "has the results of a study; show figure study-budget, study-ranks, study-heads, "
           "head-scatter, head-profile, study-prompts, study-layers or study-loops, or give "
           "results of kvloupe-capture eval";
  }
  return {};
}

std::string evaluated_budget(const FigureInput& input) {
  const Evaluation& evaluation = *input.evaluation;
  double tokens = 0.0;
  for (const EvaluationRun& run : evaluation.runs) {
    tokens += run.tokens / static_cast<double>(evaluation.runs.size());
  }
  constexpr int kLongest = 1 << 30;
  const int length = static_cast<int>(std::clamp(std::round(tokens), 1.0, double{kLongest}));
  return nearest_budget(evaluation, input.budget.resolve(length) / static_cast<double>(length));
}

}  // namespace kvloupe::figure
