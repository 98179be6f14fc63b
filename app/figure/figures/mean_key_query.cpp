// Cosine of the mean key and the mean query of every query head.

#include "analysis/metric/angle.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::mean_key_query_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const int layers = trace.model().num_layers;
  long query_heads = 0;
  for (int layer = 0; layer < layers; ++layer) query_heads += trace.layer_model(layer).num_heads;
  auto figure = std::make_unique<Strips>();
  Strips::Series series;
  long negative = 0;
  progress.set_total(query_heads);
  progress.count("query heads", query_heads);
  for (int layer = 0; layer < layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    series.rows.emplace_back();
    figure->row_names.push_back(std::to_string(layer));
    Eigen::RowVectorXd mean_key;
    for (int q = 0; q < model.num_heads; ++q) {
      progress.advance();
      const int head = model.head_of(q);
      if (q % model.group_size() == 0) mean_key = mean_row(view(trace.key(layer, head)));
      const double value = cosine(mean_key, mean_row(view(trace.query(layer, q))));
      negative += value < 0.0 ? 1 : 0;
      series.rows.back().push_back({value,
                                    place_in_row(q, model.num_heads),
                                    Target{.layer = layer, .head = head, .query_head = q},
                                    {}});
    }
  }
  Strips::Column column;
  column.series.push_back(std::move(series));
  column.x = x_axis("cos(mean key, mean query)", cosines_and_zero(range_of(column.series)));
  column.reference = 0.0;
  figure->columns.push_back(std::move(column));
  figure->y = layer_axis(layers);
  figure->row_height = std::clamp(3.2 * trace.most_query_heads(), 12.0, 26.0);
  figure->measure = "cosine_of_means";
  figure->row_measure = "of_layer";
  figure->caption_text = fmt::format(
      "Cosine of the mean key and the mean query of every query head, after RoPE, {}: negative in "
      "{} of {}.",
      Strips::rows_in_words(layers), format_count(negative), format_count(query_heads));
  return figure;
}

}  // namespace

FigureInfo entry() {
  return figure_info(
      "mean-key-query", "Mean key and mean query",
      "cos(k̄, q̄) of every query head, k̄ = (1/n)Σ k_i, q̄ = (1/n)Σ q_i (KeyDiff, figure 12). If it "
      "is negative, keys that differ from the mean receive more attention",
      Topic::keys, compute);
}

}  // namespace kvloupe::figure::mean_key_query_figure
