// A run with a policy in its cache beside the replay of that policy on the full run: where the two
// keep the same tokens, and how far the states have moved.

#include "analysis/replay/drift.h"

#include <array>

#include "app/figure/figures/figures.h"

namespace kvloupe::figure::drift_figure {

namespace {

/// One layer's mean Jaccard index over its heads, and the head least and most alike.
struct Agreement {
  double mean = 0.0;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  void add(double jaccard, int heads) {
    mean += jaccard / heads;
    least = std::min(least, jaccard);
    most = std::max(most, jaccard);
  }
};

/// A distance between the runs' states that is drawn as a line over the layers.
struct Distance {
  const char* name;
  double LayerDrift::*value;
};
constexpr std::array<Distance, 4> kDistances{{{"queries", &LayerDrift::query},
                                              {"keys", &LayerDrift::key},
                                              {"values", &LayerDrift::value},
                                              {"outputs", &LayerDrift::output}}};
constexpr std::array<std::size_t, 2> kDrawn{1, 3};  // queries and values lie close to the keys

class DriftFigure final : public PanelFigure {
 public:
  Drift drift;
  int heads = 0;
  std::vector<float> map;           // [L,S] mean over the layer's heads
  std::vector<Agreement> by_cell;   // [L,S]
  std::vector<Agreement> by_layer;  // [L] of the heads' means over the evicting steps

  int layers() const { return static_cast<int>(drift.layers.size()); }
  int steps() const { return static_cast<int>(drift.blocks.size()); }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    const ColourScale colours = scale(request);
    add_cells(scene, style, axes[0], map, layers(), steps(), colours,
              [](double value) { return fmt::format("{:.2f}", value); });
    add_colour_bar(scene, style, axes[0].plot, colours);
    draw_agreement(scene, style, axes[1]);
    draw_distances(scene, request, axes[2], grid(request).beside);
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"measure", "unit", "layer", "head", "step", "token", "value"});
    constexpr std::string_view none;
    for (const HeadDrift& head : drift.heads) {
      for (std::size_t step = 0; step < head.jaccard.size(); ++step) {
        csv.row({"jaccard", none, head.layer, head.head, step, none, head.jaccard[step]});
      }
      csv.row({"mean_jaccard", none, head.layer, head.head, none, none,
               Drift::mean_jaccard(head, drift.first_eviction)});
    }
    for (const LayerDrift& layer : drift.layers) {
      for (const Distance& distance : kDistances) {
        const std::string name = std::string(distance.name) + "_distance";
        csv.row({name, "percent", layer.layer, none, none, none, 100.0 * layer.*distance.value});
      }
    }
    for (std::size_t token = 0; token < drift.tokens.size(); ++token) {
      const TokenDrift& one = drift.tokens[token];
      const auto line = [&](std::string_view measure, std::string_view unit, double value) {
        csv.row({measure, unit, none, none, none, token, value});
      };
      line(kl_name(), "nats", one.divergence);
      line("same_top1", none, one.same_top1 ? 1.0 : 0.0);
      line("loss_difference", "nats", one.loss_difference);
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.layer < 0 || target.layer >= layers()) return {};
    if (target.step >= steps()) return {};
    const Agreement& one =
        target.step < 0 ? by_layer[static_cast<std::size_t>(target.layer)]
                        : by_cell[static_cast<std::size_t>(target.layer * steps() + target.step)];
    return heads == 1
               ? fmt::format("Jaccard {:.3f}", one.mean)
               : fmt::format("Jaccard {:.3f} ({:.3f} to {:.3f})", one.mean, one.least, one.most);
  }

 private:
  std::string_view kl_name() const {
    return drift.divergence_kind == DivergenceKind::top ? "kl_lower_bound" : "kl";
  }
  /// From a round number below the least, so that small differences show.
  double least_shown() const {
    double least = 1.0;
    for (const Agreement& one : by_cell) least = std::min(least, one.least);
    return std::clamp(std::floor(10.0 * least) / 10.0, 0.0, 0.9);
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours;
    colours.map = request.style.amounts;
    colours.label = "Jaccard index";
    colours.low = least_shown();
    choose_limits(colours, request.limits, kShare);
    return colours;
  }

  PanelGrid grid(const DrawRequest& request) const override {
    const Style& style = request.style;
    PanelGrid grid{.least_width = 84.0, .aspect = 1.1};
    Panel map_panel;
    map_panel.title = "Same tokens kept";
    map_panel.x = {AxisMeaning::step, AxisScale::linear, 0.0, static_cast<double>(steps()), "Step"};
    map_panel.y = layer_axis(layers());
    map_panel.is_map = true;
    const Axis over_layers{AxisMeaning::layer, AxisScale::linear, 0.0,
                           static_cast<double>(layers()), "Layer"};
    Panel agreement{.title = "Mean over steps", .x = over_layers};
    ValueRange shares;
    shares.add(least_shown());
    shares.add(1.0);
    agreement.y = y_axis("Jaccard index", shares);
    agreement.y_grid = true;
    Panel distances{.title = "Distance from the full run", .x = over_layers};
    ValueRange range;
    for (const LayerDrift& layer : drift.layers) {
      for (const std::size_t i : kDrawn) range.add(100.0 * layer.*kDistances[i].value);
    }
    distances.y = y_axis("Distance (%)", range.from_zero());
    distances.y_grid = true;
    grid.panels = {map_panel, agreement, distances};
    std::vector<std::string> names;
    for (const std::size_t i : kDrawn) names.emplace_back(kDistances[i].name);
    grid.beside = colour_bar_width(style, scale(request), 80.0);
    if (request.legend) grid.beside = std::max(grid.beside, series_label_room(style, names));
    return grid;
  }

  void draw_agreement(Scene& scene, const Style& style, const Axes& axes) const {
    std::vector<double> x, low, high;
    std::vector<Point> mean;
    for (std::size_t layer = 0; layer < by_layer.size(); ++layer) {
      x.push_back(static_cast<double>(layer) + 0.5);
      low.push_back(by_layer[layer].least);
      high.push_back(by_layer[layer].most);
      mean.push_back({x.back(), by_layer[layer].mean});
    }
    const SeriesLook look = series_look(style, 0);
    if (heads > 1) add_band(scene, axes, x, low, high, look.colour.with_alpha(0.18));
    add_marked_line(scene, style, axes, mean, look);
  }

  void draw_distances(Scene& scene, const DrawRequest& request, const Axes& axes,
                      double room) const {
    const Style& style = request.style;
    std::vector<SeriesLabel> labels;
    for (std::size_t place = 0; place < kDrawn.size(); ++place) {
      const Distance& distance = kDistances[kDrawn[place]];
      std::vector<Point> line;
      for (const LayerDrift& layer : drift.layers) {
        line.push_back({layer.layer + 0.5, 100.0 * layer.*distance.value});
      }
      const SeriesLook look = series_look(style, static_cast<int>(place) + 2);
      add_marked_line(scene, style, axes, line, look);
      if (!line.empty() && std::isfinite(line.back().y)) {
        labels.push_back({distance.name, axes.to_page(line.back().x, line.back().y).y, look});
      }
    }
    if (!request.legend) return;
    add_series_labels(scene, style, axes.plot.right(), room, axes.plot.y + 3.0,
                      axes.plot.bottom() - 3.0, std::move(labels));
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  // In either order: the full run is the one whose cache was full.
  std::array traces{input.traces.at(0), input.traces.at(1)};
  if (traces[0]->run().closed_loop()) std::swap(traces[0], traces[1]);
  auto figure = std::make_unique<DriftFigure>();
  figure->drift = measure_drift(*traces[0], *traces[1], progress);
  const Drift& drift = figure->drift;
  const int heads = traces[0]->most_heads();
  const auto steps = static_cast<std::size_t>(figure->steps());
  figure->heads = heads;
  figure->by_layer.resize(static_cast<std::size_t>(figure->layers()));
  figure->by_cell.resize(figure->by_layer.size() * steps);
  for (const HeadDrift& head : drift.heads) {
    const auto layer = static_cast<std::size_t>(head.layer);
    figure->by_layer[layer].add(Drift::mean_jaccard(head, drift.first_eviction),
                                traces[0]->layer_model(head.layer).num_kv_heads);
    for (std::size_t step = 0; step < steps; ++step)
      figure->by_cell[layer * steps + step].add(head.jaccard[step],
                                                traces[0]->layer_model(head.layer).num_kv_heads);
  }
  for (const Agreement& one : figure->by_cell) figure->map.push_back(static_cast<float>(one.mean));
  figure->caption_text = fmt::format(
      "{} with N = {}, open loop (replayed on the full run) and closed loop (in the model's cache, "
      "{} positions). a, Jaccard index of the two retained sets after each step, mean over the "
      "layer's heads; b, its mean over the steps from the first eviction on (band: the layer's "
      "heads); c, relative distance √(Σ‖x − x′‖²/Σ‖x‖²) of the closed loop's keys and attention "
      "outputs from the full run's.",
      drift.policy, format_count(drift.budget), drift.positions);
  if (drift.tokens.empty()) return figure;
  const double loss = drift.mean_loss_difference();
  figure->caption_text += fmt::format(
      " Next tokens: KL(full ‖ closed) {}{} nats, same most probable token after {:.1f} % of "
      "tokens, loss {}{} nats.",
      drift.divergence_kind == DivergenceKind::top ? "at least " : "",
      format_number(drift.mean_divergence()), 100.0 * drift.same_top1_share(),
      loss > 0.0 ? "+" : "", format_number(loss));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "drift", "Open against closed loop",
      "A policy replayed on the full run (open loop) and run in the model's cache (closed loop), "
      "on the same tokens: |A ∩ B| / |A ∪ B| of the sets that each layer retains after each step, "
      "and how far keys and outputs have moved. Layer 0 is the same in both; the layers above "
      "differ, because evictions in lower layers changed their states",
      Topic::model_cache, compute, kTwoColumns);
  info.limits = true;
  info.needs = {.fewest_traces = 2, .most_traces = 2, .both_loops = true};
  return info;
}

}  // namespace kvloupe::figure::drift_figure
