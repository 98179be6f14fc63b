// Cosine of the mean key and the mean query of every query head.

#include "analysis/math/angle.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::mean_key_query_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  long negative = 0, query_heads = 0;
  auto figure = query_head_strips(
      input, progress, {{}}, "cos(mean key, mean query)", "cosine_of_means",
      [&](const Matrix& keys, const Matrix& queries) {
        const double value = cosine(mean_row(view(keys)), mean_row(view(queries)));
        negative += value < 0.0 ? 1 : 0;
        ++query_heads;
        return std::vector<double>{value};
      });
  figure->caption_text = fmt::format(
      "Cosine of the mean key and the mean query of every query head, after RoPE, {}: negative in "
      "{} of {}.",
      Strips::rows_in_words(input.trace->model().num_layers), format_count(negative),
      format_count(query_heads));
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
