// Layers × heads, each cell one measure of one head.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/metric/sink.h"
#include "analysis/replay/measure_replay.h"
#include "app/figure/figures/figures.h"
#include "app/plot/cell_map.h"
#include "app/plot/limits.h"
#include "app/plot/map_plot.h"

namespace kvloupe::figure::overview_figure {

namespace {

constexpr const char* kSinks = "sinks";
/// The head's part of what eviction changes for later queries: the answer's where there is one.
constexpr const char* kChange = "change";

std::string measure_name(const std::string& chosen, const Trace& trace) {
  if (chosen != kChange) return chosen;
  return std::string(asked_name(asked_first(trace.tokens(), trace.run()))) +
         (trace.has_output_weight() ? "_residual_part" : "_kept_attention");
}

/// How the colour of a measure is shown.
struct Shown {
  std::string name;
  std::string label;
  bool share = false;            // limits 0 and 1
  bool neither_is_zero = false;  // limits as the values have them, without 0
};

Shown shown(const std::string& name) {
  if (name == kSinks) return {name, "Sink strength of token 0", true, false};
  const MeasureInfo& info = *require_measure(name).info;
  return {name, info.title, info.share, info.any_origin};
}

struct Panel {
  std::string title;
  std::vector<float> values;          // [L,Hk]
  std::vector<float> strongest = {};  // [L,Hk] of sinks: the largest of the head's query heads
};

class Overview final : public Figure {
 public:
  int layers = 0;
  int heads = 0;
  Shown measure;
  std::string at;  // where, in words
  std::vector<Panel> panels;

  double natural_height(const DrawRequest& request) const override {
    const double panel_width =
        (request.width - colour_bar_width(request.style, scale(request), 100.0)) /
            static_cast<double>(panels.size()) -
        30.0;
    const double cell = std::clamp(panel_width / heads, 3.0, 22.0);
    return std::clamp(layers * std::min(cell, 16.0), 90.0, 420.0) + 30.0 +
           title_room(request.style);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const ColourScale colours = scale(request);
    const double top = title_room(style) + 3.0;
    const int count = static_cast<int>(panels.size());
    MapPlot plot;
    plot.x = {AxisMeaning::head, AxisScale::linear, 0.0, static_cast<double>(heads), "Head"};
    plot.y = {AxisMeaning::layer, AxisScale::linear, 0.0, static_cast<double>(layers), "Layer"};
    plot.scale = colours;
    const AxisLook y_look = axis_look(style, plot.y, request.height - top - 25.0, false);
    const double left = 2.0 + left_margin(style, plot.y, y_look);
    const double bottom = 2.0 + bottom_margin(style, plot.x, axis_look(style, plot.x, 100.0, true));
    const double height = std::max(10.0, request.height - top - bottom);
    const double right = 2.0 + colour_bar_width(style, colours, height);
    constexpr double gap = 14.0;
    const double width = std::max(10.0, (request.width - left - right - gap * (count - 1)) / count);
    for (int p = 0; p < count; ++p) {
      const Rect rect{left + p * (width + gap), top, width, height};
      const Panel& panel = panels[static_cast<std::size_t>(p)];
      auto pixels = paint(panel.values, heads, layers, colours);
      std::string key = image_key(*pixels);
      scene.add(Image{std::move(pixels), rect, std::move(key), Interpolation::nearest});
      const Axes axes{rect, plot.x, plot.y};
      add_gaps(scene, style, axes);
      add_outlines(scene, style, axes, panel);
      add_values(scene, style, axes, panel, colours);
      AxisLook x = axis_look(style, plot.x, rect.width, true);
      AxisLook y = y_look;
      x.line = y.line = false;
      y.labels = p == 0;
      add_axes(scene, style, axes, x, y);
      if (count > 1) {
        add_panel_letter(scene, style, p, {rect.x, 2.0});
        scene.add(make_text(
            style, style.fonts->fit(panel.title, Font::regular, style.small, width - 12.0),
            {rect.x + 11.0, 2.0 + style.fonts->cap_height() * style.text}, style.small));
      }
      if (p == count - 1) add_colour_bar(scene, style, rect, colours);
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "layer", "head", measure.name});
    for (const Panel& panel : panels) {
      for (long l = 0; l < layers; ++l) {
        for (long h = 0; h < heads; ++h) {
          csv.row({std::string_view(panel.title), l, h,
                   static_cast<double>(panel.values[static_cast<std::size_t>(l * heads + h)])});
        }
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.layer < 0 || target.head < 0 || target.layer >= layers || target.head >= heads)
      return {};
    std::string text;
    for (const Panel& panel : panels) {
      if (!text.empty()) text += ", ";
      if (panels.size() > 1) text += panel.title + " ";
      text += format_number(static_cast<double>(
          panel.values[static_cast<std::size_t>(target.layer * heads + target.head)]));
      if (panel.strongest.empty()) continue;
      const auto cell = static_cast<std::size_t>(target.layer * heads + target.head);
      if (panel.strongest[cell] > panel.values[cell]) {
        text += fmt::format(", strongest query head {}",
                            format_number(static_cast<double>(panel.strongest[cell])));
      }
    }
    return text;
  }

  std::string caption() const override {
    std::string text = fmt::format("{} of every head, {}", measure.label, at);
    for (std::size_t p = 0; p < panels.size(); ++p) {
      if (panels.size() > 1) {
        text += fmt::format("{} {}, {}", p == 0 ? ":" : ";", static_cast<char>('a' + p),
                            panels[p].title);
      } else if (!panels[p].title.empty()) {
        text += ", " + panels[p].title;
      }
    }
    if (!panels.front().strongest.empty()) text += "; outlined where a query head is above 0.3";
    return text + ".";
  }

 private:
  double title_room(const Style& style) const { return panels.size() > 1 ? style.text * 1.7 : 0.0; }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours;
    colours.map = request.style.amounts;
    colours.label = measure.label;
    float low = std::numeric_limits<float>::infinity();
    float high = -low;
    for (const Panel& panel : panels) {
      for (const float v : panel.values) {
        if (!std::isfinite(v)) continue;
        low = std::min(low, v);
        high = std::max(high, v);
      }
    }
    if (!(low <= high)) low = high = 0.0F;
    if (low < 0.0F && !measure.share && !measure.neither_is_zero) {
      // Values of both signs, such as correlations: colours diverge from 0.
      colours.is_signed = true;
      const auto reach = static_cast<double>(std::max(std::abs(low), std::abs(high)));
      colours.high = reach > 0.0 ? reach : 1.0;
      colours.low = -colours.high;
    } else if (measure.share) {
      colours.low = 0.0;
      colours.high = 1.0;
    } else {
      colours.low = std::min(0.0, static_cast<double>(low));
      colours.high = high > low ? static_cast<double>(high) : static_cast<double>(low) + 1.0;
      if (measure.neither_is_zero && high > low) colours.low = static_cast<double>(low);
    }
    choose_limits(colours, request.limits, measure.share ? kShare : Bounds{});
    return colours;
  }

  /// Round heads with a query head that is a sink: their mean may not tell.
  void add_outlines(Scene& scene, const Style& style, const Axes& axes, const Panel& panel) const {
    if (panel.strongest.empty()) return;
    std::vector<bool> marked;
    for (const float value : panel.strongest) marked.push_back(value > kSinkHead);
    outline_cells(scene, style, axes.plot, marked, layers, heads);
  }

  /// Hairlines of paper between the cells, where these are large enough to bear them.
  void add_gaps(Scene& scene, const Style& style, const Axes& axes) const {
    const double cell_width = axes.plot.width / heads;
    const double cell_height = axes.plot.height / layers;
    if (std::min(cell_width, cell_height) < 4.0) return;
    Path gaps;
    for (int h = 1; h < heads; ++h) {
      const double x = axes.plot.x + h * cell_width;
      gaps.move({x, axes.plot.y}).line({x, axes.plot.bottom()});
    }
    for (int l = 1; l < layers; ++l) {
      const double y = axes.plot.y + l * cell_height;
      gaps.move({axes.plot.x, y}).line({axes.plot.right(), y});
    }
    if (gaps.verbs.empty()) return;
    gaps.stroke = Stroke{style.colours.paper, 0.8, {}, Cap::butt};
    scene.add(std::move(gaps));
  }

  /// The numbers themselves where they fit.
  void add_values(Scene& scene, const Style& style, const Axes& axes, const Panel& panel,
                  const ColourScale& colours) const {
    const double cell_width = axes.plot.width / heads;
    const double cell_height = axes.plot.height / layers;
    if (cell_height < style.small * 1.3) return;
    const ColourLookup lookup(colours);
    std::vector<Text> texts;
    std::vector<Colour> grounds;
    for (int l = 0; l < layers; ++l) {
      for (int h = 0; h < heads; ++h) {
        const auto value =
            static_cast<double>(panel.values[static_cast<std::size_t>(l * heads + h)]);
        const Point middle = axes.to_page(h + 0.5, l + 0.5);
        const std::string label =
            measure.share ? fmt::format("{:.2f}", value) : format_number(value);
        Text text = make_text(style, std::isnan(value) ? "–" : label,
                              {middle.x, middle.y + style.fonts->cap_height() * style.small / 2},
                              style.small, Font::regular, Align::centre);
        if (text.width > cell_width - 3.0) return;  // all or none
        grounds.push_back(lookup(value));
        texts.push_back(std::move(text));
      }
    }
    add_on_grounds(scene, style, std::move(texts), grounds);
  }
};

/// At the step where it has one, else of the whole replay or the trace.
float value_of(const Measure& measure, const HeadReplay& head, int step) {
  const MeasureScope scope = measure.family->scope;
  const bool of_step = scope == MeasureScope::query_head || scope == MeasureScope::step;
  return static_cast<float>(of_step
                                ? measure_at(measure, head.steps.at(static_cast<std::size_t>(step)))
                                : measure_of(measure, head));
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Overview>();
  const ModelInfo& model = input.trace->model();
  figure->layers = model.num_layers;
  figure->heads = model.num_kv_heads;
  const std::string name = measure_name(choice(entry(), input.choices, "measure"), *input.trace);
  figure->measure = shown(name);
  const auto cells =
      static_cast<std::size_t>(figure->layers) * static_cast<std::size_t>(figure->heads);
  if (name == kSinks) {
    const Matrix strengths = sink_strengths(*input.trace, 0, progress);
    Panel panel{"full cache", std::vector<float>(cells, 0.0F)};
    const int group = model.group_size();
    for (int l = 0; l < figure->layers; ++l) {
      for (int h = 0; h < figure->heads; ++h) {
        panel.values[static_cast<std::size_t>(l * figure->heads + h)] =
            strengths.row(l).segment(h * group, group).mean();
        panel.strongest.push_back(strengths.row(l).segment(h * group, group).maxCoeff());
      }
    }
    figure->at = group > 1 ? "mean over its query heads" : "mean over all later queries";
    figure->panels.push_back(std::move(panel));
    return figure;
  }
  const Measure& measure = require_measure(name);
  MeasureRequest request;
  request.measures = {name};
  request.steps = {input.selection.step};
  for (const auto& replay : {input.policy_a, input.policy_b}) {
    if (!replay) continue;
    const Replay measured = measure_replay(*input.trace, *replay, request, progress);
    Panel panel{replay->policy, std::vector<float>(cells, std::numeric_limits<float>::quiet_NaN())};
    for (const HeadReplay& head : measured.heads) {
      panel.values[static_cast<std::size_t>(head.layer * figure->heads + head.head)] =
          value_of(measure, head, input.selection.step);
    }
    figure->panels.push_back(std::move(panel));
  }
  figure->at = fmt::format("N = {}", format_count(input.policy_a->budget));
  if (measure.family->scope == MeasureScope::query_head ||
      measure.family->scope == MeasureScope::step) {
    figure->at += fmt::format(", step {}", input.selection.step);
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info;
  info.name = "overview";
  info.title = "Overview";
  info.tooltip =
      "One measure of every head, mean over its query heads: the effect of eviction on later "
      "queries, S, ℒ and its bound θ (CriticalKV), the volume of the kept keys (KeyDiff), and the "
      "others of docs/measures.md; or the mean attention on token 0";
  info.topic = Topic::kept;
  info.limits = true;
  info.needs.step = true;
  info.needs.policy = true;
  info.needs.all_layers = true;
  info.aspect = 1.5;
  ChoiceInfo measure{"measure", "Measure", "The measure that the colour of a head shows", {}};
  measure.values.emplace_back(kChange);
  // Measures of a whole replay come last, because the figure shows a step.
  for (const bool of_replay : {false, true}) {
    for (const Measure& m : all_measures()) {
      const bool own = m.family->scope == MeasureScope::replay;
      // Among measures computed on request, only a number of one step is ready soon enough.
      const bool asked = m.family->scope == MeasureScope::queries;
      if (m.family->on_request && m.family->scope != MeasureScope::step && !asked) continue;
      if ((own || asked) == of_replay) measure.values.push_back(m.info->name);
    }
  }
  measure.values.emplace_back(kSinks);
  info.choices = {measure};
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::figure::overview_figure
