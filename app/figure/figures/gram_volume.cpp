// The volume that each policy's retained keys span, over all heads.

#include "analysis/policy/published.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::gram_volume_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Strips>();
  const WantedReplay like{.measures = {"log_pseudo_determinant", "rank"},
                          .steps = {input.selection.step}};
  const auto replays = replays_of(input, for_each_policy(chosen_policies(input), like), progress);
  const Measure& volume = require_measure("log_pseudo_determinant");
  const Measure& rank = require_measure("rank");
  Strips::Series series;
  int least_rank = input.trace->layer_model(input.selection.layer).head_dim, most_rank = 0;
  for (const auto& replay : replays) {
    figure->row_names.push_back(replay->policy);
    series.rows.emplace_back();
    const int count = static_cast<int>(replay->heads.size());
    for (int i = 0; i < count; ++i) {
      const HeadReplay& head = replay->heads[static_cast<std::size_t>(i)];
      const StepRecord& record = head.steps.at(static_cast<std::size_t>(input.selection.step));
      const int own_rank = static_cast<int>(measure_at(rank, record));
      least_rank = std::min(least_rank, own_rank);
      most_rank = std::max(most_rank, own_rank);
      series.rows.back().push_back({measure_at(volume, record),
                                    place_in_row(i, count),
                                    Target{.layer = head.layer, .head = head.head},
                                    {}});
    }
  }
  Strips::Column column{.x = x_axis("Log pseudo-determinant of KᵀK", range_of({series}).padded())};
  column.series.push_back(std::move(series));
  figure->columns.push_back(std::move(column));
  figure->y = name_axis(figure->row_names);
  figure->row_height = 26.0;
  figure->medians = true;
  figure->measure = "log_pseudo_determinant";
  figure->row_measure = "policy";
  figure->caption_text = fmt::format(
      "Log pseudo-determinant, Σ log λ over the non-zero eigenvalues of KᵀK, of the keys retained "
      "after step {}, N = {}; one mark per head, layers from top to bottom; lines and numbers: "
      "medians. Rank {}, d = {}.",
      input.selection.step, format_count(replays.front()->budget),
      least_rank == most_rank ? std::to_string(most_rank)
                              : fmt::format("{} to {}", least_rank, most_rank),
      input.trace->layer_model(input.selection.layer).head_dim);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "gram-volume", "Volume of retained keys",
      "The volume that the retained keys span in each head (KeyDiff, figure 5). KKᵀ is singular if "
      "more keys than coordinates are kept, so Σ log λ runs over the eigenvalues λ of KᵀK above "
      "n·ε·λ_max: comparable only at equal rank",
      Topic::keys, compute, kColumn, 1.3);
  info.needs = {.step = true, .comparison = true};
  info.choices = {policies_choice(
      published_list({"A", "B", "keydiff", "h2o", "tova", "snapkv", "sink", "random"}))};
  return info;
}

}  // namespace kvloupe::figure::gram_volume_figure
