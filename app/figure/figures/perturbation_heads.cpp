// By how much the second stage of CriticalKV reduces each query head's output perturbation.

#include "analysis/base/text/unknown.h"
#include "app/figure/figures/cell_maps.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/stage_comparison.h"
#include "app/figure/query_head_rows.h"

namespace kvloupe::figure::perturbation_heads_figure {

namespace {

/// By how many percent of `before` it becomes less.
double reduction(double before, double after) {
  if (std::isnan(before) || before == after) return std::isnan(before) ? before : 0.0;
  // Nothing was lost: nothing to reduce.
  return before > 0.0 ? 100.0 * (1.0 - after / before) : -std::numeric_limits<double>::infinity();
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const StageComparison what = stage_comparison(input);
  const auto replays = replays_of(input, wanted_of(what), progress);
  auto figure = std::make_unique<CellMaps>();
  const int layers = figure->rows = input.trace->model().num_layers;
  const int heads = figure->columns = input.trace->most_query_heads();
  const int group = input.trace->model().group_size();
  figure->query_heads = query_head_rows(*input.trace);
  figure->present = query_heads_of_layers(*input.trace);
  const std::vector<double> without = perturbations(what, *replays[0]);
  const std::vector<double> with = perturbations(what, *replays[1]);
  figure->add_row({"layer", "query_head", "without", "with", "reduction_percent"});
  std::vector<float>& reductions = figure->maps.emplace_back().values;
  double most = 0.0;
  std::size_t next = 0;
  // A cell of the map for each: layers may have fewer query heads, or none.
  for (int l = 0; l < layers; ++l) {
    for (int h = 0; h < heads; ++h) {
      const bool is_there = figure->has(l, h);
      const double before = is_there ? without[next] : kUnknown,
                   after = is_there ? with[next] : kUnknown;
      reductions.push_back(static_cast<float>(reduction(before, after)));
      const auto own = static_cast<double>(reductions.back());
      if (std::isfinite(own)) most = std::max(most, std::abs(own));
      const std::string text =
          fmt::format("{} {} → {}", what.symbol, format_number(before), format_number(after));
      figure->say({.layer = l, .query_head = h}, text);
      // If each head has one query head, a selected head is enough.
      if (group == 1) figure->say({.layer = l, .head = h}, text);
      if (!is_there) continue;
      figure->add_row({l, h, before, after, own});
      ++next;
    }
  }
  figure->x = query_head_axis(heads, group);
  figure->y = layer_axis(layers);
  figure->colours = {.is_signed = true};
  figure->colours.label = "Less ℒ (%)";  // short: the map may be two rows high
  // One head that becomes many times worse would leave all others white.
  figure->colours.high = most > 0.0 ? std::min(most, 100.0) : 1.0;
  figure->colours.low = -figure->colours.high;
  figure->number = [](double value) { return format_number(std::round(value), 3); };
  figure->shape.aspect = cell_map_aspect(layers, heads);
  figure->shape.right = 2.0;
  figure->bar_height = 100.0;
  const auto count = [&](const auto& is) {
    return std::count_if(reductions.begin(), reductions.end(), is);
  };
  figure->caption_text = fmt::format(
      "Reduction of the output perturbation {} of every query head by the second stage, in percent "
      "of the value without the stage, {} against {}, N = {}, {}. Smaller in {} of {} query heads, "
      "larger in {}.{}",
      what.symbol, what.with.text(), what.without.text(), format_count(replays[0]->budget), what.at,
      count([](float value) { return value > 0.0F; }), reductions.size(),
      count([](float value) { return value < 0.0F; }), absent_rows_text(figure->present));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "perturbation-heads", "Perturbation per head",
      "ℒ = ‖(A − A′)VW_O‖ with and without the two stages of CriticalKV, per query head "
      "(CriticalKV, figures 5 and 9; 12 and 13 for the L2 norm)",
      Topic::perturbation, compute, kColumn, 1.3);
  info.limits = true;
  info.needs = {.step = true, .comparison = true};
  info.choices = stage_choices();
  info.unavailable = no_perturbation;
  return info;
}

}  // namespace kvloupe::figure::perturbation_heads_figure
