// How near the keys that KeyDiff scores highest are to the mean query, beside all keys.

#include <numeric>

#include "analysis/math/angle.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::distinct_keys_query_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const double share = chosen_number(input, "share");
  const int count =
      std::max(1, static_cast<int>(std::lround(share / 100.0 * input.trace->length())));
  long nearer = 0, query_heads = 0;
  auto figure = query_head_strips(
      input, progress,
      {{fmt::format("distinct keys ({} %)", number_text(share)), true, {}},
       {"all keys", false, {}}},
      "Mean cosine to the mean query", "mean_cosine",
      [&](const Matrix& keys, const Matrix& queries) {
        const Eigen::RowVectorXd mean_query = mean_row(view(queries));
        const std::vector<double> cosines = cosines_to(view(keys), mean_query);
        const double of_all = std::accumulate(cosines.begin(), cosines.end(), 0.0) /
                              static_cast<double>(cosines.size());
        const double of_distinct = distinct_rows_cosine(view(keys), mean_query, count);
        nearer += of_distinct > of_all ? 1 : 0;
        ++query_heads;
        return std::vector<double>{of_distinct, of_all};
      });
  figure->joined = true;
  figure->caption_text = fmt::format(
      "Mean cosine to the mean query, for every query head: filled, of the {} keys with the lowest "
      "cosine to their anchor; open, of all keys; {}. The filled mark is higher in {} of {} heads.",
      format_count(count), Strips::rows_in_words(input.trace->model().num_layers),
      format_count(nearer), format_count(query_heads));
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
