// Lengths of keys, queries and values, head by head.

#include "analysis/metric/norms.h"

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
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  auto figure = std::make_unique<Distributions>();
  figure->layer = s.layer;
  figure->measure = "norm_l2";
  figure->columns = {
      {"Keys", "‖k‖₂", "Head"}, {"Queries", "‖q‖₂", "Query head"}, {"Values", "‖v‖₂", "Head"}};
  progress.set_total(trace.layer_model(s.layer).num_kv_heads +
                     trace.layer_model(s.layer).num_heads);
  for (int h = 0; h < trace.layer_model(s.layer).num_kv_heads; ++h) {
    progress.advance();
    const Matrix keys = trace.key(s.layer, h), values = trace.value(s.layer, h);
    figure->columns[0].rows.push_back({std::to_string(h), h, h == s.head, row_norms(view(keys))});
    figure->columns[2].rows.push_back({std::to_string(h), h, h == s.head, row_norms(view(values))});
  }
  for (int q = 0; q < trace.layer_model(s.layer).num_heads; ++q) {
    progress.advance();
    const int head = trace.layer_model(s.layer).head_of(q);
    const Matrix queries = trace.query(s.layer, q);
    figure->columns[1].rows.push_back({std::to_string(q), head,
                                       s.query_head >= 0 ? q == s.query_head : head == s.head,
                                       row_norms(view(queries)), q});
  }
  for (Distributions::Column& one : figure->columns) set_range(one);
  figure->caption_text = fmt::format(
      "Lengths of all {} tokens’ keys, queries and values, layer {}. Each ridge is as high as its "
      "row; ticks and numbers: medians; amber: the selected head.",
      format_count(trace.length()), s.layer);
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
