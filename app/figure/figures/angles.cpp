// Angles of the keys to the mean key and of the queries to the mean query, head by head.

#include "analysis/metric/angle.h"
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
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  auto figure = std::make_unique<Distributions>();
  figure->layer = s.layer;
  figure->measure = "angle_degrees";
  figure->columns.push_back(column("Keys", "To mean key (°)", "Head"));
  figure->columns.push_back(column("Queries", "To mean query (°)", "Query head"));
  progress.set_total(trace.layer_model(s.layer).num_kv_heads +
                     trace.layer_model(s.layer).num_heads);
  for (int h = 0; h < trace.layer_model(s.layer).num_kv_heads; ++h) {
    progress.advance();
    figure->columns[0].rows.push_back(
        {std::to_string(h), h, h == s.head, angles_to_mean(trace.key(s.layer, h))});
  }
  for (int q = 0; q < trace.layer_model(s.layer).num_heads; ++q) {
    progress.advance();
    const int head = trace.layer_model(s.layer).head_of(q);
    figure->columns[1].rows.push_back({std::to_string(q), head,
                                       s.query_head >= 0 ? q == s.query_head : head == s.head,
                                       angles_to_mean(trace.query(s.layer, q)), q});
  }
  figure->caption_text =
      fmt::format(
          "Angles of the keys of all {} tokens to their head’s mean key, and of the queries to the "
          "mean query, layer {}, after RoPE. Each ridge is as high as its row; ticks and numbers: "
          "medians; amber: the selected head",
          format_count(trace.length()), s.layer) +
      ".";
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
