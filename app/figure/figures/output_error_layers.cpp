// Relative output error of each layer under several policies.

#include <fmt/format.h>

#include "analysis/measure/output_error.h"
#include "analysis/policy/published.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/line_panels.h"

namespace kvloupe::figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const FigureInfo info = output_error_layers_figure();
  const std::vector<PolicySpec> policies = chosen_policies(info, input);
  std::vector<WantedReplay> wanted;
  for (const PolicySpec& policy : policies) wanted.push_back({.policy = policy, .metrics = true});
  const auto replays = replays_of(input, wanted, progress);
  const int layers = input.trace->model().num_layers;
  LinePanels::Panel panel;
  ValueRange range;
  for (std::size_t p = 0; p < policies.size(); ++p) {
    LinePanels::Line line;
    line.name = policies[p].text();
    line.look = static_cast<int>(p);
    line.marked = true;
    std::vector<SquaredError> sums(static_cast<std::size_t>(layers));
    for (const HeadReplay& head : replays[p]->heads) {
      SquaredError& sum = sums[static_cast<std::size_t>(head.layer)];
      const SquaredError own = squared_error(head);
      sum.error += own.error;
      sum.output += own.output;
    }
    for (int layer = 0; layer < layers; ++layer) {
      const double share = sums[static_cast<std::size_t>(layer)].share();
      line.points.push_back({layer + 0.5, share});
      range.add(share);
    }
    panel.lines.push_back(std::move(line));
  }
  std::vector<std::string> names;
  for (int layer = 0; layer < layers; ++layer) names.push_back(std::to_string(layer));
  panel.x = name_axis(std::move(names), "Layer");
  panel.y = y_axis("Output error Σ‖o − o′‖² / Σ‖o‖²", range.from_zero());
  panel.y_grid = true;
  auto figure = std::make_unique<LinePanels>();
  figure->panels.push_back(std::move(panel));
  figure->legend = policies.size() > 3;
  figure->x_measure = "layer";
  figure->y_measure = "output_error";
  figure->caption_text = fmt::format(
      "Output error per layer, Σ‖o − o′‖² / Σ‖o‖² before W_O over the last queries of the steps "
      "from the first eviction on and all query heads (this normalisation is ours), N = {}.",
      format_count(replays.front()->budget));
  return figure;
}

}  // namespace

FigureInfo output_error_layers_figure() {
  FigureInfo info;
  info.name = "output-error-layers";
  info.title = "Output error per layer";
  info.tooltip =
      "Σ‖o − o′‖² / Σ‖o‖² over queries and heads, full cache compared with the retained entries "
      "(after CAOTE, figure 3, which does not define its normalisation: this is ours)";
  info.topic = Topic::values;
  info.needs.comparison = true;
  info.aspect = 1.5;
  info.choices = {
      policies_choice(published_list({"h2o", "h2o+caote", "snapkv", "snapkv+caote", "keydiff"}))};
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::figure
