// Output perturbation per layer, with and without the second stage of CriticalKV.

#include <fmt/format.h>

#include "app/figure/figures/figures.h"
#include "app/figure/figures/line_panels.h"
#include "app/figure/figures/stage_comparison.h"

namespace kvloupe::figure::perturbation_layers_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const FigureInfo info = entry();
  const StageComparison what = stage_comparison(info, input);
  const auto replays = replays_of(input, wanted_of(what), progress);
  const ModelInfo& model = input.trace->model();
  LinePanels::Panel panel;
  for (std::size_t r = 0; r < replays.size(); ++r) {
    const std::vector<double> all = perturbations(what, *replays[r]);
    LinePanels::Line line;
    line.name = r == 0 ? "without" : "with two stages";
    // The look of policy B for the baseline, that of policy A for the policy shown.
    line.look = r == 0 ? 1 : 0;
    line.marked = true;
    auto first = all.begin();
    for (int layer = 0; layer < model.num_layers; ++layer) {
      const int heads = input.trace->layer_model(layer).num_heads;
      if (heads == 0) continue;
      const double mean = mean_of(std::vector<double>(first, first + heads));
      first += heads;
      line.points.push_back({layer + 0.5, mean});
    }
    panel.lines.push_back(std::move(line));
  }
  std::vector<std::string> names;
  for (int layer = 0; layer < model.num_layers; ++layer) names.push_back(std::to_string(layer));
  panel.x = name_axis(std::move(names), "Layer");
  panel.y = curve_axis("Mean " + what.symbol, panel, choice(info, input.choices, "scale"));
  panel.y_grid = true;
  auto figure = std::make_unique<LinePanels>();
  figure->panels.push_back(std::move(panel));
  figure->legend = model.num_layers > kManyLayers;
  figure->x_measure = "layer";
  figure->y_measure = what.measure;
  figure->caption_text = fmt::format(
      "Output perturbation {} per layer, mean over its query heads, {} and {}, N = {}, {}. Each "
      "layer is computed on the full cache's states; the effect on later layers is not included.",
      what.symbol, what.with.text(), what.without.text(), format_count(replays[0]->budget),
      what.at);
  figure->caption_text += curve_scale_words(figure->panels.front());
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info;
  info.name = "perturbation-layers";
  info.title = "Perturbation per layer";
  info.tooltip =
      "ℒ per layer with and without the two stages of CriticalKV (after CriticalKV, figures 6 and "
      "10, which follow hidden states through a running model; here each layer is computed alone)";
  info.topic = Topic::perturbation;
  info.needs.step = true;
  info.needs.comparison = true;
  info.aspect = 1.5;
  info.choices = stage_choices();
  info.choices.push_back(curve_scale_choice());
  info.unavailable = no_perturbation;
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::figure::perturbation_layers_figure
