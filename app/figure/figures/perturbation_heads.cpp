// By how much the second stage of CriticalKV reduces each query head's output perturbation.

#include "app/figure/figures/figures.h"
#include "app/figure/figures/stage_comparison.h"
#include "app/figure/query_head_rows.h"

namespace kvloupe::figure::perturbation_heads_figure {

namespace {

class PerturbationHeads final : public Figure {
 public:
  int layers = 0;
  int heads = 0;  // query heads
  int group = 1;
  std::vector<QueryHeadRow> rows;     // [L]
  std::vector<int> present;           // [L] query heads of each layer
  std::vector<double> without, with;  // [L,Hq]
  std::vector<float> reductions;      // [L,Hq], percent of ℒ without
  std::string symbol;
  std::string settings;  // in words

  double natural_height(const DrawRequest& request) const override {
    PanelGrid shape = grid(request);
    return panels_natural_height(request.style, shape, request.width);
  }

  Scene draw(const DrawRequest& request) const override {
    Scene scene = make_scene(request.style, request.width, request.height);
    const ColourScale colours = scale(request);
    const std::vector<Axes> axes = add_panels(scene, request.style, grid(request));
    add_cells(
        scene, request.style, axes.front(), reductions, layers, heads, colours,
        [](double value) { return format_number(std::round(value), 3); }, present);
    add_colour_bar(scene, request.style, axes.front().plot, colours);
    add_query_head_regions(scene, axes.front().plot, rows, heads);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"layer", "query_head", "without", "with", "reduction_percent"});
    for (long l = 0; l < layers; ++l) {
      for (long h = 0; h < rows[static_cast<std::size_t>(l)].query_heads; ++h) {
        const auto at = static_cast<std::size_t>(l * heads + h);
        csv.row({l, h, without[at], with[at], reductions[at]});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    // If each head has one query head, a selected head is enough.
    const int head = target.query_head < 0 && group == 1 ? target.head : target.query_head;
    if (target.layer < 0 || target.layer >= layers || head < 0 || head >= heads) return {};
    const auto at = static_cast<std::size_t>(target.layer * heads + head);
    return fmt::format("{} {} → {}", symbol, format_number(without[at]), format_number(with[at]));
  }

  std::string caption() const override {
    long better = 0, worse = 0;
    for (const float value : reductions) {
      better += value > 0.0F;
      worse += value < 0.0F;
    }
    return fmt::format(
               "Reduction of the output perturbation {} of every query head by the second stage, "
               "in percent of the value without the stage, {}. Smaller in {} of {} query heads, "
               "larger in {}.",
               symbol, settings, better, reductions.size(), worse) +
           absent_rows_text(present);
  }

 private:
  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.is_signed = true};
    colours.label = "Less ℒ (%)";  // short: the map may be two rows high
    double most = 0.0;
    for (const float value : reductions) {
      if (std::isfinite(value)) most = std::max(most, std::abs(static_cast<double>(value)));
    }
    // One head that becomes many times worse would leave all others white.
    most = most > 0.0 ? std::min(most, 100.0) : 1.0;
    colours.low = -most;
    colours.high = most;
    choose_limits(colours, request.limits);
    return colours;
  }

  PanelGrid grid(const DrawRequest& request) const {
    PanelGrid grid;
    Panel panel{.x = head_axis(heads)};
    if (group > 1) {  // no key-value heads: numbers of their own, one to a cell
      std::vector<std::string> names;
      for (int head = 0; head < heads; ++head) names.push_back(std::to_string(head));
      panel.x = name_axis(std::move(names), "Query head");
    }
    panel.y = layer_axis(layers);
    panel.is_map = true;
    grid.panels = {panel};
    grid.aspect = cell_map_aspect(layers, heads);
    grid.right = 2.0 + colour_bar_width(request.style, scale(request), 100.0);
    return grid;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const StageComparison what = stage_comparison(input);
  const auto replays = replays_of(input, wanted_of(what), progress);
  auto figure = std::make_unique<PerturbationHeads>();
  figure->layers = input.trace->model().num_layers;
  figure->heads = input.trace->most_query_heads();
  figure->rows = query_head_rows(*input.trace);
  figure->present = query_heads_of_layers(*input.trace);
  figure->group = input.trace->model().group_size();
  figure->symbol = what.symbol;
  // A cell of the map for each: layers may have fewer query heads, or none.
  const auto spread = [&](const std::vector<double>& values) {
    std::vector<double> cells(static_cast<std::size_t>(figure->layers * figure->heads),
                              std::numeric_limits<double>::quiet_NaN());
    auto next = values.begin();
    for (int layer = 0; layer < figure->layers; ++layer) {
      const int count = figure->rows[static_cast<std::size_t>(layer)].query_heads;
      std::copy(next, next + count, cells.begin() + layer * figure->heads);
      next += count;
    }
    return cells;
  };
  figure->without = spread(perturbations(what, *replays[0]));
  figure->with = spread(perturbations(what, *replays[1]));
  for (std::size_t i = 0; i < figure->without.size(); ++i) {
    const double before = figure->without[i];
    // Nothing was lost: nothing to reduce.
    const double change = std::isnan(before)          ? before
                          : figure->with[i] == before ? 0.0
                          : before > 0.0              ? 100.0 * (1.0 - figure->with[i] / before)
                                                      : -std::numeric_limits<double>::infinity();
    figure->reductions.push_back(static_cast<float>(change));
  }
  figure->settings = fmt::format("{} against {}, N = {}, {}", what.with.text(), what.without.text(),
                                 format_count(replays[0]->budget), what.at);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "perturbation-heads", "Perturbation per head",
      "ℒ = ‖(A − A′)VW_O‖ with and without the two stages of CriticalKV, per query head "
      "(CriticalKV, figures 5 and 9; 12 and 13 for the L2 norm)",
      Topic::perturbation, compute, kColumn, 1.3);
  info.limits = true;
  info.needs = {.step = true, .comparison = true};
  info.choices = stage_choices();
  info.unavailable = no_perturbation;
  return info;
}

}  // namespace kvloupe::figure::perturbation_heads_figure
