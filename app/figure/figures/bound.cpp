// CriticalKV's bounds beside the perturbation they bound, for one query head.

#include "analysis/math/bounds.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/stage_comparison.h"

namespace kvloupe::figure::bound_figure {

namespace {

struct Shown {
  const char* measure;  // without the norm
  const char* name;
  int look;
};
// θ(σ) is the paper's θ with a hat, which the fonts of pictures have no place for.
constexpr Shown shown[] = {{"perturbation_", "ℒ", 0},
                           {"bound_", "θ", 1},
                           {"bound_stage_one_", "θ(σ)", 2},
                           {"bound_relaxed_", "θ(σ) relaxed", 3}};

/// The place of a value along x, and its step.
struct Place {
  double x = 0.0;
  const Replay* replay = nullptr;
  int step = 0;
};

/// The query head's, or the mean over the head's.
double value_at(const FigureInput& input, const std::string& name, const Place& place) {
  const Selection& s = input.selection;
  const int group = input.trace->layer_model(s.layer).group_size();
  const StepRecord& record =
      head_of(*place.replay, s.layer, s.head).steps.at(static_cast<std::size_t>(place.step));
  return measure_at(require_measure(name), record,
                    s.query_head < 0 ? -1 : s.query_head - s.head * group);
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const bool by_budget = input.choice("over") == "budgets";
  const std::string norm = input.choice("norm");
  WantedReplay one{.policy = input.spec_a, .layers = {input.selection.layer}};
  for (const Shown& line : shown) one.measures.push_back(line.measure + norm);
  if (by_budget) one.steps = {input.selection.step};
  std::vector<WantedReplay> wanted{one};
  if (by_budget) {
    wanted.clear();
    for (const Budget& budget : chosen_budgets(input)) {
      wanted.push_back(one);
      wanted.back().budget = budget;
    }
  }
  const auto replays = replays_of(input, wanted, progress);
  std::vector<Place> places;
  ValueRange x;
  for (const auto& replay : replays) {
    const int steps = static_cast<int>(replay->blocks.size());
    for (int step = by_budget ? input.selection.step : 0;
         step < (by_budget ? input.selection.step + 1 : steps); ++step) {
      places.push_back(
          {by_budget ? static_cast<double>(replay->budget) : step + 0.5, replay.get(), step});
      x.add(places.back().x);
    }
  }
  LinePanels::Panel values, tightness;
  values.title = "Perturbation and bounds";
  tightness.title = "Tightness";
  ValueRange range;
  for (const Shown& one : shown) {
    LinePanels::Line line{.name = one.name, .look = one.look, .marked = places.size() <= 40};
    LinePanels::Line ratio = line;
    for (const Place& place : places) {
      const double value = value_at(input, one.measure + norm, place);
      line.points.push_back({place.x, value});
      if (value > 1e-12) range.add(value);
      const double perturbation = value_at(input, "perturbation_" + norm, place);
      ratio.points.push_back({place.x, kvloupe::tightness(perturbation, value)});
    }
    const bool known = std::any_of(line.points.begin(), line.points.end(),
                                   [](const Point& p) { return std::isfinite(p.y); });
    if (!known) continue;  // no second stage in this policy
    values.lines.push_back(std::move(line));
    ratio.name = std::string("ℒ / ") + one.name;
    if (one.look > 0) tightness.lines.push_back(std::move(ratio));
  }
  const double steps = static_cast<double>(replays.front()->blocks.size());
  values.x = tightness.x = by_budget
                               ? x_axis("Budget N (entries)", x.padded_log(), AxisScale::log)
                               : Axis{AxisMeaning::step, AxisScale::linear, 0.0, steps, "Step"};
  values.y = y_axis(norm == "l2" ? "L2 norm" : "L1 norm", range.padded_log(), AxisScale::log);
  tightness.y = y_axis("ℒ / bound", {0.0, 1.0});
  tightness.y_grid = true;
  auto figure = line_panels(by_budget ? "budget" : "step", "value",
                            {std::move(values), std::move(tightness)});
  const Selection& s = input.selection;
  const std::string head = s.query_head >= 0
                               ? fmt::format("query head {}", s.query_head)
                               : fmt::format("head {}, mean over its query heads", s.head);
  figure->caption_text = fmt::format(
      "Output perturbation ℒ of the last query of {} and its bounds, {}, layer {}, {}{}: θ "
      "(theorem 3.3), θ(σ) with the first stage's attention σ in place of S (3.5), and θ(σ) "
      "relaxed (E.1), known only where σ > 0.5. b, ℒ divided by each bound.",
      by_budget ? fmt::format("step {}", s.step) : std::string("every step"),
      replays.front()->policy, s.layer, head,
      by_budget ? std::string() : fmt::format(", N = {}", format_count(replays.front()->budget)));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "bound", "Perturbation bounds",
      "ℒ ≤ θ ≤ θ(σ) ≤ θ(σ) relaxed (CriticalKV, theorems 3.3, 3.5 and E.1; the last only where σ > "
      "0.5). θ(σ) needs a policy with critical",
      Topic::perturbation, compute, kTwoColumns, 2.6);
  info.needs = {.head = true, .step = true, .comparison = true};
  info.choices = {
      word_choice("over", "Over",
                  "All steps at the selected budget, or the selected step at several budgets",
                  {"steps", "budgets"}),
      word_choice("norm", "Norm", "Norm of the perturbation and the bounds", {"l1", "l2"}),
      budgets_choice("2.5%,5%,10%,20%,40%")};
  info.unavailable = no_perturbation;
  return info;
}

}  // namespace kvloupe::figure::bound_figure
