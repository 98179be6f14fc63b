// Output perturbation per layer, with and without the second stage of CriticalKV.

#include "app/figure/figures/figures.h"
#include "app/figure/figures/stage_comparison.h"

namespace kvloupe::figure::perturbation_layers_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const StageComparison what = stage_comparison(input);
  const auto replays = replays_of(input, wanted_of(what), progress);
  const ModelInfo& model = input.trace->model();
  LinePanels::Panel panel;
  for (std::size_t r = 0; r < replays.size(); ++r) {
    const std::vector<double> all = perturbations(what, *replays[r]);
    // Policy B's look for what is left behind, A's for the policy looked at.
    LinePanels::Line line{
        .name = r == 0 ? "without" : "with two stages", .look = r == 0 ? 1 : 0, .marked = true};
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
  panel.x = layer_names_axis(model.num_layers);
  panel.y = curve_axis("Mean " + what.symbol, panel, input.choice("scale"));
  panel.y_grid = true;
  auto figure = line_panels("layer", what.measure, {std::move(panel)});
  figure->legend = model.num_layers > kManyLayers;
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
  FigureInfo info = figure_info(
      "perturbation-layers", "Perturbation per layer",
      "ℒ per layer with and without the two stages of CriticalKV (after CriticalKV, figures 6 and "
      "10, which follow hidden states through a running model; here each layer is computed alone)",
      Topic::perturbation, compute, kColumn, 1.5);
  info.needs = {.step = true, .comparison = true};
  info.choices = stage_choices();
  info.choices.push_back(curve_scale_choice());
  info.unavailable = no_perturbation;
  return info;
}

}  // namespace kvloupe::figure::perturbation_layers_figure
