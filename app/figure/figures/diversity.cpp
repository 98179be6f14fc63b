// KeyDiff's objective as each policy reaches it, and the gap of its relaxation.

#include "analysis/math/diversity.h"

#include "analysis/policy/published.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/strips.h"

namespace kvloupe::figure::diversity_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const bool objective = input.choice("measure") == "objective";
  auto figure = std::make_unique<Strips>();
  const auto replays = replays_of(input, for_each_policy(chosen_policies(input)), progress);
  const int step = input.selection.step;
  Strips::Series reached, gap;
  for (const auto& replay : replays) {
    figure->row_names.push_back(replay->policy);
    reached.rows.emplace_back();
    gap.rows.emplace_back();
    const int count = static_cast<int>(replay->heads.size());
    for (int i = 0; i < count; ++i) {
      progress.check();
      const HeadReplay& head = replay->heads[static_cast<std::size_t>(i)];
      const auto states = input.replays->states().get(*input.trace, head.layer, {}, progress);
      const Diversity d =
          key_diversity(view(states->keys[static_cast<std::size_t>(head.head)]),
                        replay->tokens_at(head, step), replay->retained_at(head, step));
      const Target target{.layer = head.layer, .head = head.head};
      const double place = place_in_row(i, count);
      reached.rows.back().push_back({objective ? d.objective : d.mean_cosine, place, target, {}});
      gap.rows.back().push_back({d.relaxation_gap, place, target, {}});
    }
  }
  Strips::Column first, second;
  first.title = objective ? "Objective" : "Likeness of retained keys";
  if (objective) {
    first.x = x_axis("‖Σ k/‖k‖‖² over S", range_of({reached}).padded_log(), AxisScale::log);
  } else {
    first.x = x_axis("Mean cosine in S", within(range_of({reached}).padded(), kCosine));
  }
  second.title = "Relaxation gap";
  second.x = x_axis("‖mean of S − mean of cache‖", range_of({gap}).from_zero());
  first.series.push_back(std::move(reached));
  second.series.push_back(std::move(gap));
  figure->columns.push_back(std::move(first));
  figure->columns.push_back(std::move(second));
  figure->y = name_axis(figure->row_names);
  figure->row_height = 26.0;
  figure->medians = true;
  figure->measure = "value";
  figure->row_measure = "policy";
  figure->caption_text = fmt::format(
      "a, {} of the set S that each policy retains after step {}, N = {}: lower is more diverse; "
      "b, distance between the mean direction of S and that of the whole cache, which KeyDiff uses "
      "in its place. One mark per head, layers from top to bottom; lines and numbers: medians. "
      "Keys as captured, even if they were merged.",
      objective ? "KeyDiff’s objective, the sum of cosines over all ordered pairs,"
                : "mean cosine of two different keys",
      step, format_count(replays.front()->budget));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "diversity", "Diversity of retained keys",
      "KeyDiff (§3.3) looks for the set S with the smallest Σ k̂_i·k̂_j = ‖Σ k̂_i‖², and approximates "
      "the mean direction of S by that of the whole cache: the value that each policy reaches, and "
      "how far the two means differ",
      Topic::keys, compute, kTwoColumns, 2.2);
  info.needs = {.step = true, .comparison = true};
  info.choices = {
      policies_choice(published_list({"A", "B", "keydiff", "keydiff(anchor=pairwise)", "h2o",
                                      "tova", "snapkv", "sink", "random"})),
      word_choice("measure", "Measure",
                  "The mean cosine of two retained keys, comparable across budgets, or the "
                  "objective itself",
                  {"mean-cosine", "objective"})};
  return info;
}

}  // namespace kvloupe::figure::diversity_figure
