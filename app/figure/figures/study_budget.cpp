// A measure of a study against the budget: each policy's mean over the prompts, with its interval,
// or with the prompts themselves where they are few.

#include <span>

#include "analysis/study/study_statistics.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::study_budget_figure {

namespace {

// Names of lines stand at their ends; more or longer ones go above the plot, where none is cut.
constexpr std::size_t kMostNamesAtEnds = 5;
constexpr std::size_t kLongestNameAtEnd = 18;

/// Places of the budgets: percent of the prompt if all are written so, else mean entries.
std::vector<double> places_of(const MeasureTable& table, bool percent) {
  std::vector<double> places;
  for (std::size_t b = 0; b < table.budgets.size(); ++b) {
    if (percent) {
      places.push_back(*percent_of(table.budgets[b]));
      continue;
    }
    const std::span<const double> entries(table.entries);
    places.push_back(
        student_mean(entries.subspan(b * table.prompts.size(), table.prompts.size())).mean);
  }
  return places;
}

/// The values of a policy at a budget on the prompts that have one; of a difference, beside them
/// those of the first policy, on prompts that have both.
struct Values {
  std::vector<double> own, firsts;
  std::vector<int> contexts;
};
Values known_values(const MeasureTable& table, std::size_t policy, std::size_t budget,
                    bool difference) {
  Values values;
  const std::vector<int> contexts = contexts_of(table.prompts);
  for (std::size_t prompt = 0; prompt < table.prompts.size(); ++prompt) {
    const double value = table.value(policy, budget, prompt);
    const double first = difference ? table.value(0, budget, prompt) : 0.0;
    if (!std::isfinite(value) || !std::isfinite(first)) continue;
    values.own.push_back(value);
    values.firsts.push_back(first);
    values.contexts.push_back(contexts[prompt]);
  }
  return values;
}

bool are_hits(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](double value) { return value == 0.0 || value == 1.0; });
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const MeasureTable table = chosen_table(input);
  require_one_model(input.evaluation->study->path);
  const StudyMeasure measure = described(table.measure);
  const bool difference = input.choice("show") == "difference";
  if (difference && table.policies.size() < 2) {
    throw WorkError("figure study-budget: show=difference needs two policies; the study has " +
                    table.policies.front() + " alone");
  }
  const bool percent = std::all_of(table.budgets.begin(), table.budgets.end(),
                                   [](const auto& budget) { return percent_of(budget); });
  const std::vector<double> at = places_of(table, percent);
  std::vector<std::size_t> order;
  for (std::size_t b = 0; b < at.size(); ++b) {
    if (at[b] > 0.0) order.push_back(b);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return at[a] < at[b]; });
  auto figure = std::make_unique<LinePanels>();
  figure->add_row({"policy", "budget", percent ? "budget_percent" : "budget_entries", "prompts",
                   table.measure + (difference ? "_difference" : "_mean"), "low_95", "high_95"});
  std::size_t fewest = table.prompts.size(), most = 0;
  std::vector<double> sorted;
  for (const std::size_t b : order) sorted.push_back(at[b]);
  BudgetCurves curves(sorted, table.policies.size(), table.prompts.size());
  bool hits = true;     // whether the bands are of shares of prompts
  bool shared = false;  // whether questions share contexts
  for (std::size_t p = difference ? 1 : 0; p < table.policies.size(); ++p) {
    curves.add_policy(table.policies[p], static_cast<int>(p));
    for (const std::size_t b : order) {
      progress.check();
      Values values = known_values(table, p, b, difference);
      if (values.own.empty()) continue;
      const MeanInterval one =
          difference ? paired_interval(values.own, values.firsts, measure.share, values.contexts)
                     : mean_interval(values.own, measure.share, values.contexts);
      figure->add_row({table.policies[p], table.budgets[b], at[b], values.own.size(), one.mean,
                       one.low, one.high});
      most = std::max(most, values.own.size());
      const bool own_hits = measure.share && are_hits(values.own) && are_hits(values.firsts);
      for (std::size_t i = 0; i < values.own.size(); ++i) values.own[i] -= values.firsts[i];
      const std::vector<double> independent = context_means(values.own, values.contexts);
      shared |= independent.size() < values.own.size();
      fewest = std::min(fewest, independent.size());
      if (independent.size() >= kFewestForBootstrap) hits &= own_hits;
      curves.add(at[b], one, independent);
    }
  }
  LinePanels::Panel panel = curves.panel(percent);
  if (panel.lines.empty()) {
    throw WorkError(fmt::format("figure study-budget: no value of measure {} is known{}",
                                table.measure, difference ? " for two policies" : ""));
  }
  mark_chance(panel, table.policies);
  const double level = difference ? 0.0 : student_mean(table.full).mean;
  if (std::isfinite(level)) {
    panel.levels.push_back({level, ""});
    curves.y.add(level);
  }
  panel.y = y_axis((difference ? "Δ " : "") + axis_text(measure),
                   difference ? curves.y.padded() : within(curves.y.padded(), bounds_of(measure)));
  const auto names_too_long = [](const auto& line) { return line.name.size() > kLongestNameAtEnd; };
  figure->legend = table.policies.size() - (difference ? 1 : 0) > kMostNamesAtEnds ||
                   std::any_of(panel.lines.begin(), panel.lines.end(), names_too_long);
  const std::string things = shared                        ? "contexts"
                             : measure.task == kReplayTask ? "traces"
                                                           : "prompts";
  std::string intervals;
  if (fewest < kFewestForBootstrap)
    intervals = " Dots: each of the " + things + ", where too few are known for an interval.";
  if (!panel.bands.empty() && hits && !shared) {
    intervals += fmt::format(" Bands: 95 % intervals of {} ({}).",
                             difference ? "differences of paired shares" : "shares",
                             difference ? "Newcombe 1998" : "Wilson 1927");
  } else if (!panel.bands.empty()) {
    intervals += fmt::format(
        " Bands: 95 % of {} bootstrap resamples of the {}, the same for all policies{}.",
        format_count(kResamples), things, difference ? ", so that the differences are paired" : "");
  }
  figure->panels.push_back(std::move(panel));
  figure->caption_text = fmt::format(
      "{}{}{}, by budget: mean over {}{}{}.{}{}{}", measure.title,
      difference ? " less that of " + table.policies.front() + " on the same prompt" : "",
      task_text(measure), fewest < most ? format_count(static_cast<long>(fewest)) + " to " : "",
      prompts_text(table, static_cast<long>(most)),
      table.block == "capture" ? "" : ", block " + table.block, intervals,
      difference             ? " Dashed: " + table.policies.front() + "."
      : std::isfinite(level) ? " Dashed: the full cache."
                             : "",
      closing_text(input, table.measure));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "study-budget", "Measure by budget, over prompts",
      "A measure of a study against the budget: for each policy the mean over the prompts with "
      "its 95 % interval (of shares Wilson's, else the bootstrap's), or with each prompt where "
      "they "
      "are fewer than 10; or the paired difference from the first policy",
      compute, kColumn, 1.4);
  ChoiceInfo show =
      word_choice("show", "Show",
                  "Each policy's mean, or its difference from the study's first policy, prompt by "
                  "prompt",
                  {"mean", "difference"});
  info.choices = {study_measure_choice(), show, study_block_choice()};
  return info;
}

}  // namespace kvloupe::figure::study_budget_figure
