// How near the keys that KeyDiff scores highest are to the mean query, beside all keys.

#include <numeric>

#include "analysis/metric/angle.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::distinct_keys_query_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const int layers = trace.model().num_layers;
  long query_heads = 0;
  for (int layer = 0; layer < layers; ++layer) query_heads += trace.layer_model(layer).num_heads;
  const double share = chosen_number(input, "share");
  const int count = std::max(1, static_cast<int>(std::lround(share / 100.0 * trace.length())));
  auto figure = std::make_unique<Strips>();
  Strips::Series distinct{fmt::format("distinct keys ({} %)", number_text(share)), true, {}};
  Strips::Series all{"all keys", false, {}};
  long nearer = 0;
  progress.set_total(query_heads);
  progress.count("query heads", query_heads);
  for (int layer = 0; layer < layers; ++layer) {
    const ModelInfo& model = trace.layer_model(layer);
    distinct.rows.emplace_back();
    all.rows.emplace_back();
    figure->row_names.push_back(std::to_string(layer));
    Matrix keys;
    for (int q = 0; q < model.num_heads; ++q) {
      progress.advance();
      const int head = model.head_of(q);
      if (q % model.group_size() == 0) keys = trace.key(layer, head);
      const Eigen::RowVectorXd mean_query = mean_row(view(trace.query(layer, q)));
      const std::vector<double> cosines = cosines_to(view(keys), mean_query);
      const double of_all = std::accumulate(cosines.begin(), cosines.end(), 0.0) /
                            static_cast<double>(cosines.size());
      const double of_distinct = distinct_rows_cosine(view(keys), mean_query, count);
      nearer += of_distinct > of_all ? 1 : 0;
      const Target target{.layer = layer, .head = head, .query_head = q};
      const double place = place_in_row(q, model.num_heads);
      distinct.rows.back().push_back({of_distinct, place, target, {}});
      all.rows.back().push_back({of_all, place, target, {}});
    }
  }
  Strips::Column column{.series = {std::move(distinct), std::move(all)}};
  column.x = x_axis("Mean cosine to the mean query", cosines_and_zero(range_of(column.series)));
  column.reference = 0.0;
  figure->columns.push_back(std::move(column));
  figure->y = layer_axis(layers);
  figure->row_height = std::clamp(3.2 * trace.most_query_heads(), 12.0, 26.0);
  figure->joined = true;
  figure->measure = "mean_cosine";
  figure->row_measure = "of_layer";
  figure->caption_text = fmt::format(
      "Mean cosine to the mean query, for every query head: filled, of the {} keys with the lowest "
      "cosine to their anchor; open, of all keys; {}. The filled mark is higher in {} of {} heads.",
      format_count(count), Strips::rows_in_words(layers), format_count(nearer),
      format_count(query_heads));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "distinct-keys-query", "Distinct keys and the mean query",
      "Mean cosine between the keys with the highest KeyDiff score, −cos(μ(K̂), k), and the mean "
      "query (KeyDiff, figure 14), compared with all keys. The paper does not say how many keys it "
      "takes; here you choose the share",
      Topic::keys, compute);
  info.choices = {number_choice(
      "share", "Share", "Share of the keys that count as distinct, in percent", "10", 0.1, 100.0)};
  return info;
}

}  // namespace kvloupe::figure::distinct_keys_query_figure
