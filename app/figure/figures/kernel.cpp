// KVMerger's Gaussian kernel for several σ, over the distances that keys really have.

#include "app/figure/figures/figures.h"

namespace kvloupe::figure::kernel_figure {

namespace {

constexpr int samples = 200;
constexpr int bins = 60;

/// ‖k_t − k_{t−1}‖ of neighbours.
std::vector<double> neighbour_distances(const Matrix& keys) {
  std::vector<double> distances;
  for (Eigen::Index t = 1; t < keys.rows(); ++t) {
    distances.push_back((keys.row(t) - keys.row(t - 1)).cast<double>().norm());
  }
  return distances;
}

LinePanels::Ground histogram(const std::vector<double>& values, double high) {
  LinePanels::Ground ground{0.0, high, std::vector<double>(bins, 0.0)};
  for (const double value : values) {
    const int bin = std::min(static_cast<int>(value / high * bins), bins - 1);
    ground.heights[static_cast<std::size_t>(bin)] += 1.0;
  }
  const double most = *std::max_element(ground.heights.begin(), ground.heights.end());
  for (double& height : ground.heights) height *= most > 0.0 ? 0.45 / most : 0.0;
  return ground;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  progress.check();
  const std::vector<double> sigmas = chosen_numbers(input, "sigma");
  const std::vector<double> distances = neighbour_distances(input.trace->key(s.layer, s.head));
  ValueRange range;
  range.add(distances);
  range.add(2.0 * *std::max_element(sigmas.begin(), sigmas.end()));
  const double high = 1.02 * std::max(range.high, 1e-6);
  LinePanels::Panel panel;
  for (std::size_t i = 0; i < sigmas.size(); ++i) {
    LinePanels::Line line{.name = "σ = " + number_text(sigmas[i]), .look = static_cast<int>(i)};
    for (int p = 0; p <= samples; ++p) {
      const double distance = high * p / samples;
      line.points.push_back(
          {distance, std::exp(-distance * distance / (2 * sigmas[i] * sigmas[i]))});
    }
    panel.lines.push_back(std::move(line));
  }
  if (!distances.empty()) panel.grounds.push_back(histogram(distances, high));
  panel.x = x_axis("Distance to the pivot’s key", {0.0, high});
  panel.y = y_axis("Kernel g", {0.0, 1.0});
  auto figure = line_panels("distance", "kernel", {std::move(panel)});
  figure->legend = true;
  figure->caption_text = fmt::format(
      "Weight before normalisation, g = exp(−‖k_p − k_i‖²/(2σ²)), of a member at this distance "
      "from the pivot. Grey, with its own scale: how often the keys of neighbours have this "
      "distance, layer {}, head {}.",
      s.layer, s.head);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "kernel", "Merging kernel",
      "g = exp(−‖k_p − k_i‖²/(2σ²)) (KVMerger, eq. 6 and figure 3d), over the distances between "
      "neighbours in this head: if σ is much smaller than these, only the pivot counts in a merge",
      Topic::merging, compute);
  info.needs.head = true;
  info.choices = {{"sigma",
                   "σ",
                   "Widths to draw, separated by commas",
                   {"0.5,1,2,5"},
                   ChoiceKind::numbers,
                   1e-3,
                   1e6}};
  return info;
}

}  // namespace kvloupe::figure::kernel_figure
