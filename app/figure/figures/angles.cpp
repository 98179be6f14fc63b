// Angles of the keys to the mean key and of the queries to the mean query, head by head.

#include "analysis/math/angle.h"
#include "app/figure/figures/distributions.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::angles_figure {

namespace {

std::vector<float> angles_to_mean(const Matrix& rows) {
  const std::vector<double> angles = angles_to(view(rows), mean_row(view(rows)));
  return {angles.begin(), angles.end()};
}

/// Degrees, with a line at the right angle.
Distributions::Column column(std::string title, std::string label, std::string row_label) {
  return {.title = std::move(title),
          .label = std::move(label),
          .row_label = std::move(row_label),
          .high = 180.0,
          .reference = 90.0};
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = layer_distributions(input, progress, "angle_degrees",
                                    {column("Keys", "To mean key (°)", "Head"),
                                     column("Queries", "To mean query (°)", "Query head")},
                                    angles_to_mean);
  figure->caption_text = fmt::format(
      "Angles of the keys of all {} tokens to their head’s mean key, and of the queries to the "
      "mean query, layer {}, after RoPE. Each ridge is as high as its row; ticks and numbers: "
      "medians; amber: the selected head.",
      format_count(input.trace->length()), input.selection.layer);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "angles", "Angles to the mean",
      "Angles of the keys to the mean key k̄ = (1/n)Σ k_i and of the queries to the mean query, in "
      "degrees (KeyDiff, figure 11): if both distributions are narrow, keys and queries are "
      "approximately collinear",
      Topic::keys, compute, kColumn, 1.2);
  info.needs.head = true;
  return info;
}

}  // namespace kvloupe::figure::angles_figure
