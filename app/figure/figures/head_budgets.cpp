// How many entries each head holds: the entries that an allocation (AdaKV, PyramidKV) gives each
// head.

#include "analysis/policy/published.h"
#include "app/figure/figures/cell_maps.h"
#include "app/figure/figures/figures.h"
#include "app/figure/query_head_rows.h"

namespace kvloupe::figure::head_budgets_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<CellMaps>();
  const int layers = figure->rows = input.trace->model().num_layers;
  const int heads = figure->columns = input.trace->most_heads();
  figure->present = heads_of_layers(*input.trace);
  const bool relative = input.choice("show") == "share";
  const auto replays = replays_of(input, for_each_policy(chosen_policies(input)), progress);
  std::string names;
  figure->add_row({"policy", "layer", "head", "entries", "share_of_budget"});
  for (const auto& replay : replays) {
    CellMaps::Map map{.title = replays.size() > 1 ? replay->policy : ""};
    const auto budget = static_cast<float>(replay->budget);
    for (int l = 0; l < layers; ++l) {
      for (int h = 0; h < heads; ++h) {
        const HeadReplay* head = replay->find(l, h);
        const int own =
            head ? head->steps.at(static_cast<std::size_t>(input.selection.step)).retained : 0;
        map.values.push_back(head ? own / (relative ? budget : 1.0F) : std::nanf(""));
        if (!figure->has(l, h)) continue;
        figure->add_row({replay->policy, l, h, own, own / static_cast<double>(replay->budget)});
        figure->say({.layer = l, .head = h}, format_count(own));
        if (replay == replays.back()) figure->say({.layer = l, .head = h}, "entries", " ");
      }
    }
    names += replays.size() > 1
                 ? fmt::format("{} {}, {}", names.empty() ? ":" : ";",
                               static_cast<char>('a' + figure->maps.size()), replay->policy)
                 : ", " + replay->policy;
    figure->maps.push_back(std::move(map));
  }
  figure->x = head_axis(heads);
  figure->y = layer_axis(layers);
  figure->fit_colours(true);
  figure->colours.label = relative ? "Entries / N" : "Entries";
  figure->bounds.least = 0.0;
  figure->number = [relative](double value) {
    return relative ? fmt::format("{:.2f}", value) : format_count(std::lround(value));
  };
  figure->least_height = 70.0;
  figure->shape.least_width = std::clamp(8.0 * heads, 60.0, 160.0);
  figure->shape.aspect = cell_map_aspect(layers, heads);
  figure->caption_text =
      fmt::format("{} after step {}, with a mean budget of N = {}{}.{}",
                  relative ? "Entries over N that each head holds" : "Entries that each head holds",
                  input.selection.step, format_count(replays.front()->budget), names,
                  absent_rows_text(figure->present));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "head-budgets", "Entries per head",
      "How many entries each head holds after the step. AdaKV divides a layer's entries by the "
      "scores of its heads, PyramidKV gives each layer its own budget; the budget N is the mean",
      Topic::kept, compute, kColumn, 1.5);
  info.limits = true;
  info.needs = {.step = true, .comparison = true};
  info.choices = {
      policies_choice(published_list({"adakv", "pyramid"})),
      word_choice("show", "Show", "Entries, or entries over the budget N", {"entries", "share"})};
  return info;
}

}  // namespace kvloupe::figure::head_budgets_figure
