// Lengths of keys, queries and values, head by head.

#include "analysis/math/norms.h"

#include "app/figure/figures/distributions.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::norms_figure {

namespace {

/// From 0 to just above the longest.
void set_range(Distributions::Column& column) {
  float most = 0.0F;
  for (const Distributions::Row& row : column.rows) {
    for (const float value : row.values) most = std::max(most, value);
  }
  column.high = most > 0.0F ? 1.04 * static_cast<double>(most) : 1.0;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = layer_distributions(
      input, progress, "norm_l2",
      {{"Keys", "‖k‖₂", "Head"}, {"Queries", "‖q‖₂", "Query head"}, {"Values", "‖v‖₂", "Head"}},
      [](const Matrix& rows) { return row_norms(view(rows)); });
  for (Distributions::Column& one : figure->columns) set_range(one);
  figure->caption_text = fmt::format(
      "Lengths of all {} tokens’ keys, queries and values, layer {}. Each ridge is as high as its "
      "row; ticks and numbers: medians; amber: the selected head.",
      format_count(input.trace->length()), input.selection.layer);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "norms", "Lengths of keys, queries, values",
      "L2 norms (KeyDiff, figure 13): if those of keys and queries vary little, attention depends "
      "only on the angles",
      Topic::keys, compute, kTwoColumns, 2.4);
  info.needs.head = true;
  return info;
}

}  // namespace kvloupe::figure::norms_figure
