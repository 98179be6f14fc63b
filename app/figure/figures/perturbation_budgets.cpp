// Output perturbation per budget, with and without the second stage of CriticalKV.

#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/stage_comparison.h"

namespace kvloupe::figure::perturbation_budgets_figure {

namespace {

/// Share of query heads whose ℒ the second stage makes smaller, of those where it changes.
double share_better(const std::vector<double>& without, const std::vector<double>& with) {
  long better = 0, changed = 0;
  for (std::size_t i = 0; i < without.size(); ++i) {
    better += with[i] < without[i];
    changed += with[i] != without[i];
  }
  return changed > 0 ? 100.0 * static_cast<double>(better) / static_cast<double>(changed)
                     : std::numeric_limits<double>::quiet_NaN();
}

/// `replays`: of each budget (entries) one without and one with the second stage.
std::unique_ptr<const Figure> drawn(const StageComparison& what, const std::vector<int>& budgets,
                                    const Replays& replays) {
  LinePanels::Panel sizes, better;
  sizes.lines = {{.name = "without", .look = 1, .marked = true},
                 {.name = "with two stages", .marked = true}};
  better.lines = {{.marked = true, .id = "query heads with a smaller perturbation"}};
  ValueRange range, x;
  for (std::size_t b = 0; b < budgets.size(); ++b) {
    const double entries = budgets[b];
    x.add(entries);
    if (!replays[2 * b] || !replays[2 * b + 1]) continue;
    const std::vector<double> without = perturbations(what, *replays[2 * b]);
    const std::vector<double> with = perturbations(what, *replays[2 * b + 1]);
    sizes.lines[0].points.push_back({entries, mean_of(without)});
    sizes.lines[1].points.push_back({entries, mean_of(with)});
    better.lines[0].points.push_back({entries, share_better(without, with)});
    for (const LinePanels::Line& line : sizes.lines) range.add(line.points.back().y);
  }
  sizes.title = "Perturbation";
  sizes.x = better.x = x_axis("Budget N (entries)", x.padded_log(), AxisScale::log);
  sizes.y = y_axis("Mean " + what.symbol, range.from_zero());
  better.title = "Better with two stages";
  better.y = y_axis("Query heads (%)", {0.0, 100.0});
  better.levels.push_back({50.0, "", true});
  sizes.y_grid = better.y_grid = true;
  auto figure = line_panels("budget", "value", {std::move(sizes), std::move(better)});
  figure->legend = true;
  figure->caption_text = fmt::format(
      "a, output perturbation {}, mean over all query heads of all layers; b, of the query heads "
      "whose perturbation the second stage changes, the share with a smaller one. {} and {}, {}.",
      what.symbol, what.with.text(), what.without.text(), what.at);
  return figure;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const StageComparison what = stage_comparison(input);
  std::vector<WantedReplay> wanted;
  std::vector<int> budgets;
  for (const Budget& budget : chosen_budgets(input)) {
    budgets.push_back(budget_entries(budget, *input.trace, what.with));
    for (WantedReplay& one : wanted_of(what)) {
      one.budget = budget;
      wanted.push_back(std::move(one));
    }
  }
  return figure_of_replays(input, wanted, progress,
                           [&](const Replays& replays) { return drawn(what, budgets, replays); });
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "perturbation-budgets", "Perturbation per budget",
      "Mean ℒ with and without the two stages of CriticalKV, at several budgets (CriticalKV, "
      "figures 7 and 11), and the share of query heads with a smaller ℒ",
      Topic::perturbation, compute, kTwoColumns, 2.6);
  info.needs = {.step = true, .comparison = true};
  info.choices = stage_choices();
  info.choices.push_back(budgets_choice("2.5%,5%,10%,20%,40%"));
  info.unavailable = no_perturbation;
  return info;
}

}  // namespace kvloupe::figure::perturbation_budgets_figure
