// Needles found in the model with each policy in its cache: prompt length × depth.

#include "analysis/base/text/unknown.h"
#include "analysis/study/study_statistics.h"
#include "app/figure/figures/cell_maps.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::needle_grid_figure {

namespace {

std::vector<double> values_of(const Evaluation& evaluation, double EvaluationRun::*number) {
  std::vector<double> values;
  for (const EvaluationRun& run : evaluation.runs) values.push_back(run.*number);
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// The runs of a policy with a needle at a place.
struct Found {
  long runs = 0;
  double found = 0.0;
  int first = -1;  // of the runs
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const Evaluation& evaluation = *input.evaluation;
  auto figure = std::make_unique<CellMaps>();
  const std::string budget = evaluated_budget(input);
  const std::vector<double> lengths = values_of(evaluation, &EvaluationRun::length);
  const std::vector<double> depths = values_of(evaluation, &EvaluationRun::depth);
  const auto cell = [&](const std::string& policy, double depth, double length) {
    Found cell;
    for (std::size_t i = 0; i < evaluation.runs.size(); ++i) {
      const EvaluationRun& run = evaluation.runs[i];
      if (run.policy != policy || run.depth != depth || run.length != length) continue;
      if (run.budget != "full" && run.budget != budget) continue;
      if (cell.first < 0) cell.first = static_cast<int>(i);
      cell.found += run.correct;
      ++cell.runs;
    }
    return cell;
  };
  long fewest = std::numeric_limits<long>::max();
  figure->add_row({"policy", "budget", "length_tokens", "depth_percent", "runs", "found_percent",
                   "low_95", "high_95"});
  for (const std::string& policy : evaluation.policies()) {
    const bool any =
        std::any_of(evaluation.runs.begin(), evaluation.runs.end(), [&](const EvaluationRun& run) {
          return run.policy == policy && (run.budget == "full" || run.budget == budget);
        });
    if (!any) continue;
    const bool is_full = policy == "full";
    CellMaps::Map& map = figure->maps.emplace_back();
    map.title = is_full ? "full cache" : policy;
    for (const double depth : depths) {
      for (const double length : lengths) {
        const Found one = cell(policy, depth, length);
        MeanInterval share{kUnknown, kUnknown, kUnknown};  // Wilson's
        if (one.runs > 0) share = wilson_share(std::lround(one.found), one.runs);
        fewest = std::min(fewest, one.runs);
        map.values.push_back(static_cast<float>(
            one.runs > 0 ? 100.0 * one.found / static_cast<double>(one.runs) : kUnknown));
        map.runs.push_back(one.first);
        figure->add_row({policy, is_full ? "full" : std::string_view(budget), length, depth,
                         one.runs, map.values.back(), 100.0 * share.low, 100.0 * share.high});
        if (one.runs > 0)
          figure->say({.run = one.first},
                      fmt::format("{} of {} found (95 %: {:.0f} to {:.0f} %)", one.found, one.runs,
                                  100.0 * share.low, 100.0 * share.high));
      }
    }
  }
  std::vector<std::string> columns, rows;
  for (const double length : lengths) columns.push_back(format_count(std::lround(length)));
  for (const double depth : depths) rows.push_back(fmt::format("{:g}", depth));
  figure->rows = static_cast<int>(rows.size());
  figure->columns = static_cast<int>(columns.size());
  figure->shape.aspect = std::clamp(1.4 * figure->columns / std::max(1, figure->rows), 1.0, 2.5);
  figure->shape.least_width = 60.0;
  figure->x = name_axis(std::move(columns), "Length (tokens)");
  figure->y = name_axis(std::move(rows), "Depth (%)");
  figure->colours = {.high = 100.0, .label = "Found (%)"};
  figure->bounds = kPercent;
  figure->number = [](double value) { return fmt::format("{:.0f}", value); };
  figure->caption_text = fmt::format(
      "Needles found in percent, by the prompt's length and the needle's depth (percent of the "
      "text "
      "before it), {}with the policy in the model's own cache{}; at least {} prompt{} per cell.{}",
      evaluation.model.empty() ? "" : evaluation.model + " ",
      budget.empty() ? "" : ", budget " + budget, fewest, fewest == 1 ? "" : "s",
      fewest == 0 ? ""
                  : fmt::format(" Where none of {} is found, up to {:.0f} % may be; where all are, "
                                "down to {:.0f} % (Wilson’s 95 % interval).",
                                fewest, 100.0 * wilson_share(0, fewest).high,
                                100.0 * wilson_share(fewest, fewest).low));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = evaluation_figure(
      "needle-grid", "Needles by length and depth",
      "Share of needles that the model finds with each policy in its cache, by the prompt's length "
      "and the needle's depth (KeyDiff figure 6; CriticalKV figures 1 and 2; CAOTE figure 2), at "
      "the evaluated budget nearest to the chosen one",
      compute, kTwoColumns);
  info.limits = true;
  info.needs.evaluated_budget = true;
  info.unfit = [](const Evaluation& evaluation) -> std::string {
    if (evaluation.task == Evaluation::Task::needle) return {};
    if (evaluation.task == Evaluation::Task::study) return why_no_evaluation(evaluation);
    return evaluation.task == Evaluation::Task::rescue
               ? "has no needle at several depths; show figure rescue"
               : "has no needles; show figure perplexity-budget, or run --task needle";
  };
  return info;
}

}  // namespace kvloupe::figure::needle_grid_figure
