// Layers × heads, each cell one measure of one head.

#include <chrono>
#include <utility>

#include "analysis/math/head_roles.h"
#include "analysis/math/sink.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/overview_measures.h"
#include "app/figure/figures/read_dots.h"
#include "app/figure/query_head_rows.h"
#include "app/plot/map_plot.h"

namespace kvloupe::figure::overview_figure {

namespace {

using From = OverviewMeasure::From;

constexpr double kNarrowest = 150.0;  // points; a narrower map has its colour bar below
constexpr auto kBetweenParts = std::chrono::milliseconds(50);

/// The catalogue's measure that a value of the choice stands for.
std::string measure_name(const std::string& chosen, const Trace& trace) {
  const char* const asked = chosen == kChangeMeasure          ? "_residual_part"
                            : chosen == kLayerChangeMeasure   ? "_layer_error"
                            : chosen == kAttentionKeptMeasure ? "_kept_attention"
                                                              : nullptr;
  if (asked == nullptr) return chosen;
  // Without output weights nobody knows what heads add to the residual stream.
  return std::string(asked_name(asked_first(trace.tokens(), trace.run()))) +
         (trace.has_output_weight() ? asked : "_kept_attention");
}

const RoleInfo* role_of(const std::string& name) {
  const auto roles = role_catalog();
  const auto found = std::find_if(roles.begin(), roles.end(),
                                  [&](const RoleInfo& one) { return one.name == name; });
  return found == roles.end() ? nullptr : &*found;
}

/// How the colour of a measure is shown.
struct Shown {
  std::string name;
  std::string label;
  bool share = false;            // limits 0 and 1
  bool neither_is_zero = false;  // limits as the values have them, without 0
};

Shown shown(const std::string& name) {
  if (name == kSinksMeasure) return {name, "Sink strength of token 0", true, false};
  if (name == kEntriesMeasure) return {name, "Entries kept"};
  if (name == kFollowedMeasure) return {name, "Share of the followed tokens still there", true};
  if (name == kOverlapMeasure) return {name, "Jaccard index of what A and B keep", true};
  if (name == kEffectiveTokensMeasure) return {name, "Effective tokens"};
  if (const RoleInfo* role = role_of(name)) return {name, role->title};
  const MeasureInfo& info = *require_measure(name).info;
  return {name, info.title, info.share, info.any_origin};
}

struct Panel {
  std::string title;
  std::vector<float> values;          // [L,Hk]
  std::vector<float> strongest = {};  // [L,Hk] of sinks: the largest of the head's query heads
  std::vector<int> first_loss = {};   // [L,Hk] of followed tokens: the step; -1: none was lost
};

/// How values become colours.
enum class CellScale { linear, log, relative };
constexpr double kDecades = 100.0;  // the largest by the smallest from which "auto" is logarithmic
// The largest by the lowest of logarithmic colours: one head that hardly loses anything would else
// make all others look alike.
constexpr double kMostDecades = 1e4;

class Overview final : public Figure, public HeadValues {
 public:
  const std::vector<float>& head_values() const override { return panels.front().values; }

  std::string chosen_scale = "auto";

  int layers = 0;
  std::vector<int> present;         // [L] heads of each layer
  std::vector<std::string> absent;  // [L] what there is where it has no head
  int heads = 0;
  Shown measure;
  std::string at;  // where, in words
  int step = -1;   // of what has a step
  std::vector<Panel> panels;
  std::vector<int> followed;  // tokens
  std::vector<float> reads;   // [L,Hk] attention that reads them; empty: not known (yet)

  std::size_t cell(int layer, int head) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(heads) +
           static_cast<std::size_t>(head);
  }
  Panel empty_panel(std::string title) const {
    return {std::move(title),
            std::vector<float>(cell(layers, 0), std::numeric_limits<float>::quiet_NaN())};
  }
  /// Heads without a number take that of an older figure of the same, so that nothing flickers
  /// while a budget is dragged.
  void take_missing(const Figure* older) {
    const auto* before = dynamic_cast<const Overview*>(older);
    if (before == nullptr || before->measure.name != measure.name || before->step != step ||
        before->layers != layers || before->heads != heads || before->followed != followed) {
      return;
    }
    while (panels.size() < before->panels.size())
      panels.push_back(empty_panel(before->panels[panels.size()].title));
    for (std::size_t p = 0; p < before->panels.size(); ++p) {
      for (std::size_t i = 0; i < panels[p].values.size(); ++i) {
        if (std::isnan(panels[p].values[i])) panels[p].values[i] = before->panels[p].values[i];
      }
    }
    if (reads.empty()) reads = before->reads;
  }

  double natural_height(const DrawRequest& request) const override {
    if (is_narrow(request)) return 0.0;
    const double panel_width =
        (request.width - colour_bar_width(request.style, scale(request), 100.0)) /
            static_cast<double>(panels.size()) -
        30.0;
    const double cell = std::clamp(panel_width / heads, 3.0, 22.0);
    return std::clamp(layers * std::min(cell, 16.0), 90.0, 420.0) + 30.0 +
           title_room(request.style) + legend_room(request);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const ColourScale colours = scale(request);
    const double above = legend_room(request);
    const double top = above + title_room(style) + 3.0;
    const int count = static_cast<int>(panels.size());
    MapPlot plot;
    plot.x = {AxisMeaning::head, AxisScale::linear, 0.0, static_cast<double>(heads), "Head"};
    plot.y = {AxisMeaning::layer, AxisScale::linear, 0.0, static_cast<double>(layers), "Layer"};
    plot.scale = colours;
    const bool narrow = is_narrow(request);
    if (narrow) plot.x.label = plot.y.label = "";
    const AxisLook y_look = axis_look(style, plot.y, request.height - top - 25.0, false);
    const double left = 2.0 + left_margin(style, plot.y, y_look);
    const double bottom = 2.0 + bottom_margin(style, plot.x, axis_look(style, plot.x, 100.0, true));
    double height = std::max(10.0, request.height - top - bottom);
    const double right = 2.0 + (narrow ? 0.0 : colour_bar_width(style, colours, height));
    constexpr double gap = 14.0;
    double width = std::max(10.0, (request.width - left - right - gap * (count - 1)) / count);
    if (narrow) {
      constexpr double kWidest = 25.0, kHighest = 20.0;  // a cell
      width = std::min(width, kWidest * heads);
      height = std::min(std::max(10.0, height - 2.0 * style.small), kHighest * layers);
    }
    for (int p = 0; p < count; ++p) {
      const Rect rect{left + p * (width + gap), top, width, height};
      const Panel& panel = panels[static_cast<std::size_t>(p)];
      const std::vector<float> values = shown_values(panel);
      const Axes axes{rect, plot.x, plot.y};
      add_cells(scene, style, axes, values, layers, heads, colours, {}, present);
      add_outlines(scene, style, axes, panel);
      if (reads.empty()) {
        add_cell_numbers(
            scene, style, rect, values, layers, heads, colours,
            [&](double value) { return number_in_cell(value); }, present);
      } else {
        add_dots(scene, style, axes, values, colours);
      }
      AxisLook x = axis_look(style, plot.x, rect.width, true);
      AxisLook y = y_look;
      x.line = y.line = false;
      y.labels = p == 0;
      add_axes(scene, style, axes, x, y);
      if (count > 1) {
        add_panel_letter(scene, style, p, {rect.x, above + 2.0});
        scene.add(make_text(style, fit_words(style, panel.title, style.small, width - 12.0),
                            {rect.x + 11.0, above + 2.0 + style.fonts->cap_height() * style.text},
                            style.small));
      }
      if (p == 0 && above > 0.0) add_read_legend(scene, style, rect.x, largest_dot(rect));
      if (narrow) {
        add_bar_below(scene, style,
                      {rect.x, rect.bottom() + bottom, request.width - left - right, style.small},
                      colours);
      } else if (p == count - 1) {
        add_colour_bar(scene, style, rect, colours);
      }
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    std::vector<CsvWriter::Cell> names = {"policy", "layer", "head", measure.name};
    const bool is_relative = scale_in_force() == CellScale::relative;
    if (is_relative) names.emplace_back("percent_from_layer_mean");
    if (!reads.empty()) names.emplace_back("read");
    csv.row(names);
    for (const Panel& panel : panels) {
      const std::vector<float> shown = shown_values(panel);
      for (int l = 0; l < layers; ++l) {
        for (int h = 0; h < present[static_cast<std::size_t>(l)]; ++h) {
          std::vector<CsvWriter::Cell> row = {std::string_view(panel.title), static_cast<long>(l),
                                              static_cast<long>(h),
                                              static_cast<double>(panel.values[cell(l, h)])};
          if (is_relative) row.emplace_back(static_cast<double>(shown[cell(l, h)]));
          if (!reads.empty()) row.emplace_back(static_cast<double>(reads[cell(l, h)]));
          csv.row(row);
        }
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.layer < 0 || target.head < 0 || target.layer >= layers) return {};
    const auto layer = static_cast<std::size_t>(target.layer);
    if (target.head >= present[layer]) return absent[layer];
    const std::size_t at_cell = cell(target.layer, target.head);
    std::string text;
    for (const Panel& panel : panels) {
      if (!text.empty()) text += ", ";
      if (panels.size() > 1) text += panel.title + " ";
      text += format_number(static_cast<double>(panel.values[at_cell]));
      if (scale_in_force() == CellScale::relative) {
        const auto percent = static_cast<double>(shown_values(panel)[at_cell]);
        if (std::isfinite(percent))
          text += " (" + percent_text(percent) + " % from its layer's mean)";
      }
      if (!panel.strongest.empty() && panel.strongest[at_cell] > panel.values[at_cell]) {
        text += fmt::format(", strongest query head {}",
                            format_number(static_cast<double>(panel.strongest[at_cell])));
      }
      if (panel.first_loss.empty()) continue;
      text += fmt::format(" of {} still there",
                          format_counted(static_cast<long>(followed.size()), "token"));
      if (panel.first_loss[at_cell] >= 0)
        text += fmt::format(", lost from step {} on", panel.first_loss[at_cell]);
    }
    if (!reads.empty() && !std::isnan(reads[at_cell])) {
      text += fmt::format(", attention that reads them {}",
                          format_number(static_cast<double>(reads[at_cell])));
    }
    return text;
  }

  std::string caption() const override {
    std::string text = fmt::format("{}: a cell for each head, {}", measure.label, at);
    for (std::size_t p = 0; p < panels.size(); ++p) {
      if (panels.size() > 1) {
        text += fmt::format("; {}, {}", static_cast<char>('a' + p), panels[p].title);
      } else if (!panels[p].title.empty()) {
        text += ", " + panels[p].title;
      }
    }
    if (!panels.front().strongest.empty()) text += "; outlined where a query head is above 0.3";
    if (!reads.empty()) {
      text +=
          "; dots, with the full cache, the attention that reads the followed tokens: the "
          "answer's queries, else the question's, else all later ones";
    }
    return text + "." + scale_in_words() + absent_rows_text(present);
  }

 private:
  /// The smallest and the largest finite value, and the smallest above 0; infinite: none.
  struct Extent {
    float low = std::numeric_limits<float>::infinity();
    float high = -std::numeric_limits<float>::infinity();
    float positive = std::numeric_limits<float>::infinity();
    void add(const std::vector<float>& values) {
      for (const float v : values) {
        if (!std::isfinite(v)) continue;
        low = std::min(low, v);
        high = std::max(high, v);
        if (v > 0.0F) positive = std::min(positive, v);
      }
    }
  };
  Extent extent() const {
    Extent all;
    for (const Panel& panel : panels) all.add(panel.values);
    return all;
  }

  /// Shares keep their limits 0 and 1 by default; a mean of both signs is nothing to divide by.
  CellScale scale_in_force() const {
    const Extent all = extent();
    if (chosen_scale == "relative")
      return all.low >= 0.0F ? CellScale::relative : CellScale::linear;
    if (chosen_scale == "log")
      return all.low >= 0.0F && all.high > 0.0F ? CellScale::log : CellScale::linear;
    const bool spans =
        all.low > 0.0F && static_cast<double>(all.high) >= kDecades * static_cast<double>(all.low);
    return chosen_scale == "auto" && spans && !measure.share ? CellScale::log : CellScale::linear;
  }

  std::string scale_in_words() const {
    const Extent all = extent();
    switch (scale_in_force()) {
      case CellScale::log:
        return static_cast<double>(all.low) >= log_low(all)
                   ? " Logarithmic colour scale."
                   : fmt::format(
                         " Logarithmic colour scale; values below {} have its lowest colour.",
                         format_number(log_low(all)));
      case CellScale::relative:
        return " Colour: the difference of each head from the mean over the heads of its layer, in "
               "percent of that mean.";
      case CellScale::linear:
        break;
    }
    if (chosen_scale == "auto" || chosen_scale == "linear" || !(all.low <= all.high)) return {};
    return all.low < 0.0F ? " Values below 0 have no scale of this kind: the colours are linear."
                          : " All values are 0: the colours are linear.";
  }

  /// The value of the lowest logarithmic colour.
  static double log_low(const Extent& all) {
    return std::max(static_cast<double>(all.positive),
                    static_cast<double>(all.high) / kMostDecades);
  }

  /// [L,Hk] the values that the colours show: the values, or 100·(value − m)/m with the mean m over
  /// the finite values of the layer; 0 if all of them are 0.
  std::vector<float> shown_values(const Panel& panel) const {
    std::vector<float> shown = panel.values;
    if (scale_in_force() != CellScale::relative) return shown;
    for (int l = 0; l < layers; ++l) {
      double sum = 0.0;
      int count = 0;
      for (int h = 0; h < heads; ++h) {
        const float value = panel.values[cell(l, h)];
        if (!std::isfinite(value)) continue;
        sum += static_cast<double>(value);
        ++count;
      }
      const double mean = sum / std::max(count, 1);
      for (int h = 0; h < heads; ++h) {
        float& value = shown[cell(l, h)];
        if (!std::isfinite(value)) continue;
        value = mean > 0.0 ? static_cast<float>(100.0 * (static_cast<double>(value) / mean - 1.0))
                           : 0.0F;
      }
    }
    return shown;
  }

  /// "+85", with a real minus.
  static std::string percent_text(double percent) {
    const long rounded = std::lround(percent);
    return (rounded > 0 ? "+" : rounded < 0 ? "−" : "") + format_count(std::abs(rounded));
  }

  /// Above a small map in the window the pointer tells what dots mean.
  double legend_room(const DrawRequest& request) const {
    return request.legend && !reads.empty() && !is_narrow(request) ? kReadLegendRoom : 0.0;
  }

  double largest_dot(const Rect& plot) const {
    return 0.9 * std::min(plot.width / heads, plot.height / layers);
  }

  double title_room(const Style& style) const { return panels.size() > 1 ? style.text * 1.7 : 0.0; }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts, .label = measure.label};
    if (scale_in_force() == CellScale::relative) return relative_scale(request);
    const Extent all = extent();
    const bool any = all.low <= all.high;
    const float low = any ? all.low : 0.0F, high = any ? all.high : 0.0F;
    if (scale_in_force() == CellScale::log) {
      colours.scale = AxisScale::log;
      colours.low = log_low(all);
      colours.high = static_cast<double>(high);
      if (!(colours.low < colours.high)) colours.low = colours.high / 10.0;  // all are the same
    } else if (low < 0.0F && !measure.share && !measure.neither_is_zero) {
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

  ColourScale relative_scale(const DrawRequest& request) const {
    ColourScale colours{.is_signed = true, .label = "% from the layer's mean"};
    double most = 0.0;
    for (const Panel& panel : panels) {
      for (const float v : shown_values(panel)) {
        if (std::isfinite(v)) most = std::max(most, std::abs(static_cast<double>(v)));
      }
    }
    colours.high = most > 0.0 ? most : 1.0;
    colours.low = -colours.high;
    choose_limits(colours, request.limits);
    return colours;
  }

  /// Round heads with a query head that is a sink: their mean may not tell.
  void add_outlines(Scene& scene, const Style& style, const Axes& axes, const Panel& panel) const {
    if (panel.strongest.empty()) return;
    std::vector<bool> marked;
    for (const float value : panel.strongest) marked.push_back(value > kSinkHead);
    outline_cells(scene, style, axes.plot, marked, layers, heads);
  }

  bool is_narrow(const DrawRequest& request) const {
    return request.width < kNarrowest && panels.size() == 1;
  }

  /// The colour bar as a line under a narrow map, with its limits at the ends.
  void add_bar_below(Scene& scene, const Style& style, const Rect& room,
                     const ColourScale& colours) const {
    const bool is_log = colours.scale == AxisScale::log;
    const bool is_relative = scale_in_force() == CellScale::relative;
    const auto number = [&](double value) {
      return is_relative ? percent_text(value) + " %" : format_number(value);
    };
    const double base = room.y + room.height;
    const bool more_below = is_log && static_cast<double>(extent().low) < colours.low;
    const Text low = make_text(style, (more_below ? "≤ " : "") + number(colours.low),
                               {room.x, base}, style.small);
    const Text high = make_text(style, number(colours.high) + (is_log ? " (log)" : ""),
                                {room.right(), base}, style.small, Font::regular, Align::right);
    const Rect bar{room.x + low.width + 4.0, base - 0.7 * style.small,
                   room.width - low.width - high.width - 8.0, 0.7 * style.small};
    if (bar.width > 4.0) {
      std::vector<float> ramp(256);
      for (std::size_t i = 0; i < ramp.size(); ++i) {
        const double share = static_cast<double>(i) / 255.0;
        ramp[i] =
            static_cast<float>(is_log ? colours.low * std::pow(colours.high / colours.low, share)
                                      : colours.low + (colours.high - colours.low) * share);
      }
      add_image(scene, paint(ramp, static_cast<int>(ramp.size()), 1, colours), bar);
    }
    scene.add(low);
    scene.add(high);
  }

  /// Area ∝ the attention that reads the followed tokens.
  void add_dots(Scene& scene, const Style& style, const Axes& axes,
                const std::vector<float>& values, const ColourScale& colours) const {
    const ColourLookup lookup(colours);
    const double largest = largest_dot(axes.plot);
    for (int l = 0; l < layers; ++l) {
      for (int h = 0; h < heads; ++h) {
        Markers dot{.size = read_dot_size(static_cast<double>(reads[cell(l, h)]), largest)};
        if (dot.size == 0.0) continue;
        const auto value = static_cast<double>(values[cell(l, h)]);
        dot.fill = std::isnan(value) ? style.colours.ink : ink_on(lookup(value));
        dot.points = {axes.to_page(h + 0.5, l + 0.5)};
        scene.add(std::move(dot));
      }
    }
  }

  std::string number_in_cell(double value) const {
    if (scale_in_force() == CellScale::relative) return percent_text(value);
    return measure.share ? fmt::format("{:.2f}", value) : format_number(value);
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

/// The number that `value` gives for each head, NaN if the head is not in the replay.
template <typename Value>
void fill(const Overview& figure, Panel& panel, const std::vector<HeadReplay>& heads,
          const Value& value) {
  for (const HeadReplay& head : heads)
    panel.values[figure.cell(head.layer, head.head)] = static_cast<float>(value(head));
}

/// Publishes the figure so far, at most as often as a person can follow.
class OverviewParts {
 public:
  OverviewParts(const FigureInput& input, const Overview& figure)
      : input_(input), figure_(figure) {}
  void show(const Panel& panel) {
    const auto now = std::chrono::steady_clock::now();
    if (!input_.on_part || now - last_ < kBetweenParts) return;
    last_ = now;
    auto part = std::make_shared<Overview>(figure_);
    part->panels.push_back(panel);
    part->take_missing(input_.shown.get());
    input_.on_part(std::move(part));
  }

 private:
  const FigureInput& input_;
  const Overview& figure_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// The roles of heads with the full cache, whatever the policy.
void add_full_cache(Overview& figure, const FigureInput& input, Progress& progress) {
  const std::string& name = figure.measure.name;
  const bool shared = input.trace->model().group_size() > 1;
  figure.at = shared ? "mean over its query heads" : "mean over all later queries";
  Panel panel = figure.empty_panel("full cache");
  if (name == kSinksMeasure) {
    const Matrix strengths = sink_strengths(*input.trace, 0, progress);
    panel.strongest.assign(panel.values.size(), std::numeric_limits<float>::quiet_NaN());
    for (int l = 0; l < figure.layers; ++l) {
      const ModelInfo& model = input.trace->layer_model(l);
      const int group = model.group_size();
      for (int h = 0; h < model.num_kv_heads; ++h) {
        panel.values[figure.cell(l, h)] = strengths.row(l).segment(h * group, group).mean();
        panel.strongest[figure.cell(l, h)] = strengths.row(l).segment(h * group, group).maxCoeff();
      }
    }
    figure.panels.push_back(std::move(panel));
    return;
  }
  const RoleInfo* role = role_of(name);
  ReadsRequest request{.tokens = {0},
                       .roles = role != nullptr,
                       .effective_tokens = role == nullptr,
                       .background = static_cast<bool>(input.on_part),
                       .states = &input.replays->states()};
  OverviewParts parts(input, figure);
  token_reads(*input.trace, request, progress, [&](const std::vector<TokenReads>& heads) {
    for (const TokenReads& head : heads) {
      double value = head.effective_tokens;
      if (role != nullptr) {
        value = 0.0;
        for (const HeadRoles& one : head.roles)
          value += one.*role->value / static_cast<double>(head.roles.size());
      }
      panel.values[figure.cell(head.layer, head.head)] = static_cast<float>(value);
    }
    parts.show(panel);
  });
  figure.panels.push_back(std::move(panel));
}

/// The share of the followed tokens that is left, and the heads that read them.
void add_followed(Overview& figure, const FigureInput& input, Progress& progress) {
  figure.followed = chosen_tokens(input);
  for (const auto& replay : {input.policy_a, input.policy_b}) {
    if (!replay) continue;
    Panel panel = figure.empty_panel(replay->policy);
    panel.first_loss.assign(panel.values.size(), -1);
    for (const HeadReplay& head : replay->heads) {
      const TokenFate fate = token_fate(*replay, head, figure.followed);
      const std::size_t at = figure.cell(head.layer, head.head);
      panel.values[at] = static_cast<float>(fate.share[static_cast<std::size_t>(figure.step)]);
      if (fate.first_loss <= figure.step) panel.first_loss[at] = fate.first_loss;
    }
    figure.panels.push_back(std::move(panel));
  }
  if (input.partial) return;  // the older figure's, as they depend on no policy
  figure.reads.assign(figure.cell(figure.layers, 0), std::numeric_limits<float>::quiet_NaN());
  const auto reads = input.replays->reads(*input.trace, figure.followed,
                                          static_cast<bool>(input.on_part), progress);
  for (const TokenReads& head : *reads)
    figure.reads[figure.cell(head.layer, head.head)] = static_cast<float>(head.read);
}

/// Whether there is anything to show.
bool add_measured(Overview& figure, const FigureInput& input, Progress& progress) {
  const Measure& measure = require_measure(figure.measure.name);
  // A measure of the whole model for later queries needs all layers at once.
  const bool of_model = measure.family->scope == MeasureScope::queries;
  // If an older figure is shown, its numbers are replaced while the whole replay is measured.
  if (input.partial && (of_model || input.shown)) return false;
  MeasureRequest request{.measures = {figure.measure.name},
                         .steps = {input.selection.step},
                         .background = static_cast<bool>(input.on_part),
                         .states = &input.replays->states()};
  const std::shared_ptr<const Replay>& last = input.policy_b ? input.policy_b : input.policy_a;
  for (const auto& replay : {input.policy_a, input.policy_b}) {
    if (!replay) continue;
    Panel panel = figure.empty_panel(replay->policy);
    const auto add = [&](const std::vector<HeadReplay>& heads) {
      fill(figure, panel, heads,
           [&](const HeadReplay& head) { return value_of(measure, head, input.selection.step); });
    };
    OverviewParts parts(input, figure);
    std::function<void(const std::vector<HeadReplay>&)> on_layer;
    if (input.on_part && replay == last && !of_model) {
      on_layer = [&](const std::vector<HeadReplay>& heads) {
        add(heads);
        parts.show(panel);
      };
    }
    add(measure_replay(*input.trace, *replay, request, progress, on_layer).heads);
    figure.panels.push_back(std::move(panel));
  }
  return true;
}

void add_kept(Overview& figure, const FigureInput& input) {
  const auto step = static_cast<std::size_t>(figure.step);
  if (figure.measure.name == kOverlapMeasure) {
    Panel& panel = figure.panels.emplace_back(
        figure.empty_panel(input.policy_a->policy + " and " + input.policy_b->policy));
    fill(figure, panel, input.policy_a->heads, [&](const HeadReplay& head) {
      const HeadReplay* other = input.policy_b->find(head.layer, head.head);
      return other ? kept_overlap(head, *other, figure.step, input.policy_a->blocks[step].end)
                   : std::numeric_limits<double>::quiet_NaN();
    });
    return;
  }
  for (const auto& replay : {input.policy_a, input.policy_b}) {
    if (!replay) continue;
    fill(figure, figure.panels.emplace_back(figure.empty_panel(replay->policy)), replay->heads,
         [&](const HeadReplay& head) { return static_cast<double>(head.steps[step].retained); });
  }
}

/// The text in place of a number for a head that the layer lacks.
std::string absent_text(const ModelInfo& layer) {
  if (layer.attends()) return "the layer has fewer heads";
  const std::string what =
      layer.mixer.empty() ? "a layer without a cache" : layer.mixer + ", without a cache";
  if (layer.state_bytes == 0) return what;
  return fmt::format("{}; its state takes {} kB, whatever the policy", what,
                     format_number(static_cast<double>(layer.state_bytes) / 1000.0));
}

/// Whether the number is one of a step.
bool has_step(const OverviewMeasure& measure) {
  if (measure.from != From::measure) return measure.from != From::trace;
  const Measure* known = find_measure(measure.name);
  return known != nullptr && (known->family->scope == MeasureScope::query_head ||
                              known->family->scope == MeasureScope::step);
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Overview>();
  figure->layers = input.trace->model().num_layers;
  figure->heads = input.trace->most_heads();
  figure->present = heads_of_layers(*input.trace);
  for (int layer = 0; layer < figure->layers; ++layer)
    figure->absent.push_back(absent_text(input.trace->layer_model(layer)));
  const OverviewMeasure& chosen = *find_overview_measure(input.choice("measure"));
  figure->measure = shown(measure_name(chosen.name, *input.trace));
  figure->chosen_scale = input.choice("scale");
  if (has_step(chosen)) figure->step = input.selection.step;
  if (chosen.from == From::trace) {
    add_full_cache(*figure, input, progress);
    return figure;
  }
  figure->at = fmt::format("N = {}", format_count(input.policy_a->budget));
  if (figure->step >= 0) figure->at += fmt::format(", step {}", figure->step);
  if (chosen.name == kFollowedMeasure) {
    add_followed(*figure, input, progress);
  } else if (chosen.from != From::measure) {
    add_kept(*figure, input);
  } else if (!add_measured(*figure, input, progress)) {
    return nullptr;
  }
  if (input.partial) figure->take_missing(input.shown.get());
  return figure;
}

Needs needs_with(const Choices& choices) {
  const auto found = choices.find("measure");
  const OverviewMeasure* chosen =
      find_overview_measure(found == choices.end() ? kChangeMeasure : found->second);
  Needs needs;
  if (chosen != nullptr && chosen->from == From::trace) return needs;
  needs.policy = true;
  needs.all_layers = needs.beside = true;
  needs.policy_b = chosen != nullptr && chosen->from == From::both_policies;
  needs.step = chosen != nullptr && has_step(*chosen);
  return needs;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "overview", "Overview",
      "One measure of every head, mean over its query heads: the effect of eviction on later "
      "queries, S, ℒ and its bound θ (CriticalKV), "
      "the volume of the kept keys (KeyDiff), and the others of docs/measures.md; what became of "
      "followed tokens; what A and B both keep; or what the heads do with the full cache: the mean "
      "attention on token 0, their roles, their effective tokens",
      Topic::kept, compute, kColumn, 1.5);
  info.limits = true;
  info.needs_with = needs_with;
  info.needs = needs_with({});
  ChoiceInfo measure =
      word_choice("measure", "Measure", "The measure that the colour of a head shows", {});
  for (const OverviewMeasure& one : overview_measures()) measure.values.push_back(one.name);
  const ChoiceInfo scale = word_choice(
      "scale", "Scale",
      "Colours of the values, linear or logarithmic; relative: in percent from the mean over the "
      "heads of the same layer, where absolute values would only tell deep layers from others; "
      "auto: logarithmic where all values are above 0, are no shares, and the largest is at least "
      "100 times the smallest",
      {"auto", "linear", "log", "relative"});
  info.choices = {measure, tokens_choice(), scale};
  return info;
}

}  // namespace kvloupe::figure::overview_figure
