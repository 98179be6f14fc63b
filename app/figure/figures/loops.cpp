// The text that a model wrote again and again, beside the value range of the entries that each head
// lost before.

#include "analysis/trace/loops.h"

#include <fmt/ranges.h>

#include "analysis/base/text/text.h"
#include "analysis/policy/kit/rows.h"
#include "analysis/trace/given_tokens.h"
#include "app/figure/figures/figures.h"
#include "app/plot/map_plot.h"

namespace kvloupe::figure::loops_figure {

namespace {
// Points: above the map, from the top.
constexpr double kWords = 9.0;   // the texts of the loops
constexpr double kBar = 5.0;     // the tokens of the loops
constexpr double kCurve = 30.0;  // the mean over the heads
constexpr double kGap = 4.0;     // below each of them
constexpr double kAbove = kWords + kBar + kCurve + 3.0 * kGap;
constexpr double kTail = 0.01;  // share of the cells beyond the colour bar
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

struct LoopRow {
  int layer = 0, head = 0;
  std::vector<double> lost;  // [generated tokens]; NaN: nothing left the head
};

/// At each step, the mean value range of the entries that leave, divided by that of all before.
std::vector<double> lost_ranges(const Matrix& values, const std::vector<std::int32_t>& evicted_at,
                                const std::vector<Block>& blocks) {
  struct Sum {
    double ranges = 0.0;
    long entries = 0;
    double mean() const { return ranges / static_cast<double>(entries); }
  };
  std::vector<Sum> gone(blocks.size());
  std::vector<float> ranges;
  for (Eigen::Index row = 0; row < values.rows(); ++row)
    ranges.push_back(value_range(values.row(row)));
  for (std::size_t token = 0; token < evicted_at.size(); ++token) {
    if (evicted_at[token] < 0) continue;
    Sum& step = gone[static_cast<std::size_t>(evicted_at[token])];
    step.ranges += static_cast<double>(ranges[token]);
    ++step.entries;
  }
  std::vector<double> lost;
  Sum held;
  for (std::size_t step = 0; step < blocks.size(); ++step) {
    for (int token = blocks[step].first; token < blocks[step].end; ++token) {
      held.ranges += static_cast<double>(ranges[static_cast<std::size_t>(token)]);
      ++held.entries;
    }
    lost.push_back(gone[step].entries > 0 && held.ranges > 0.0 ? gone[step].mean() / held.mean()
                                                               : kNothing);
    held.ranges -= gone[step].ranges;
    held.entries -= gone[step].entries;
  }
  return lost;
}

/// At each place the mean of the last `count` values that are there.
std::vector<double> trailing_means(const std::vector<double>& values, int count) {
  std::vector<double> means;
  for (std::size_t end = 1; end <= values.size(); ++end) {
    double sum = 0.0;
    int there = 0;
    for (std::size_t i = end - std::min(end, static_cast<std::size_t>(count)); i < end; ++i) {
      if (std::isnan(values[i])) continue;
      sum += values[i];
      ++there;
    }
    means.push_back(there > 0 ? sum / there : kNothing);
  }
  return means;
}

class LoopsFigure final : public Figure {
 public:
  int first = 0, last = 0;  // generated tokens, both included
  bool given = false;       // to the model, which did not choose them
  bool same_heads = true;   // all layers have a cache with as many heads
  Loops loops;
  std::vector<std::string> texts;  // of each loop, once
  std::vector<LoopRow> rows;
  std::vector<double> mean;  // [generated tokens] of `lost` over the heads

  double natural_height(const DrawRequest& request) const override {
    const double most = std::clamp(0.55 * request.width, 140.0, 300.0);
    return kAbove + 34.0 + std::clamp(5.0 * static_cast<double>(rows.size()), 70.0, most);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    MapPlot plot;
    plot.x = {AxisMeaning::token, AxisScale::linear, static_cast<double>(first), last + 1.0,
              given ? "Token given after the prompt" : "Generated token"};
    if (request.x_range) plot.x.show(*request.x_range);
    const auto count = static_cast<double>(rows.size());
    if (same_heads) {
      const auto heads = std::count_if(rows.begin(), rows.end(), [&](const LoopRow& row) {
        return row.layer == rows.front().layer;
      });
      plot.y = {AxisMeaning::layer, AxisScale::linear, 0.0, count / static_cast<double>(heads),
                "Layer"};
    } else {
      std::vector<std::string> names;
      for (const LoopRow& row : rows) names.push_back(fmt::format("{}.{}", row.layer, row.head));
      plot.y = name_axis(std::move(names), "Layer, head");
    }
    plot.scale = scale(request);
    plot.aspect = 0.0;
    plot.top = kAbove;
    const Rect rect = map_rect(style, plot, request.width, request.height);
    const ColourLookup colour(plot.scale);
    const double shown = std::abs(plot.x.last - plot.x.first);
    const double room = rect.width * (last + 1 - first) / shown * request.pixels_per_point;
    add_map(
        scene, style, plot, rect,
        blend_cells({0, static_cast<int>(rows.size()), 0, last + 1 - first},
                    static_cast<int>(std::min(room, 4096.0)),
                    static_cast<int>(rect.height * request.pixels_per_point),
                    [&](int row, int token) {
                      const double lost =
                          rows[static_cast<std::size_t>(row)].lost[static_cast<std::size_t>(token)];
                      return std::isnan(lost) ? style.colours.neither : colour(lost - 1.0);
                    }),
        {static_cast<double>(first), last + 1.0, plot.y.first, plot.y.last});
    add_curve(scene, style, {{rect.x, rect.y - kGap - kCurve, rect.width, kCurve}, plot.x, {}});
    add_loops(scene, style, {rect, plot.x, plot.y});
    add_cell_regions(scene, rect, rows.size(), 1, [&](std::size_t r, std::size_t) {
      return Target{.layer = rows[r].layer, .head = rows[r].head};
    });
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row(
        {"token", "layer", "head", "lost_value_range", "loop_first", "loop_length", "loop_tokens"});
    constexpr std::string_view none;
    for (const Loop& loop : loops.spans) {
      csv.row({none, none, none, none, loop.first, loop.length, loop.tokens});
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      if (!std::isnan(mean[i])) {
        csv.row({first + i, none, none, mean[i], none, none, none});
      }
    }
    for (const LoopRow& row : rows) {
      for (std::size_t i = 0; i < row.lost.size(); ++i) {
        if (std::isnan(row.lost[i])) continue;
        csv.row({first + i, row.layer, row.head, row.lost[i], none, none, none});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < first || target.token > last) return {};
    // The values of all heads of the layer: a web page finds values by token and layer.
    std::vector<std::string> lost;
    for (const LoopRow& row : rows) {
      if (row.layer != target.layer) continue;
      const double value = row.lost[static_cast<std::size_t>(target.token - first)];
      lost.push_back(std::isnan(value) ? "none leaves" : format_number(value));
    }
    if (lost.empty()) return {};
    return fmt::format("lost value range by head: {}", fmt::join(lost, ", "));
  }

 private:
  /// The colours show the quotients less 1. The scale ends at a quantile, so that a few extreme
  /// cells do not flatten the colours of all others.
  ColourScale scale(const DrawRequest& request) const {
    std::vector<double> sizes;
    for (const LoopRow& row : rows) {
      for (const double lost : row.lost) {
        if (!std::isnan(lost)) sizes.push_back(std::abs(lost - 1.0));
      }
    }
    ColourScale colours{.is_signed = true,
                        .high = sizes.empty() ? 1.0 : std::max(quantile(sizes, 1.0 - kTail), 0.1),
                        .label = "Lost value range / mean \u2212 1"};
    colours.low = -colours.high;
    choose_limits(colours, request.limits);
    return colours;
  }

  void add_curve(Scene& scene, const Style& style, Axes axes) const {
    ValueRange range;
    range.add(mean);
    range.add(1.0);
    const ValueRange shown = range.padded();
    axes.y = {AxisMeaning::value, AxisScale::linear, shown.high, shown.low, ""};
    std::vector<Point> points;
    for (std::size_t i = 0; i < mean.size(); ++i)
      points.push_back({first + static_cast<double>(i) + 0.5, mean[i]});
    add_level(scene, style, axes, 1.0, "");
    SeriesLook look{.colour = style.colours.ink, .width = 0.8};
    add_line(scene, axes, points, look);
    const double cap = style.fonts->cap_height() * style.small / 2;
    const double one = axes.to_page(first, 1.0).y;
    const auto label = [&](const std::string& text, double x, double y, Align align) {
      scene.add(make_text(style, text, {x, y + cap}, style.small, Font::regular, align));
    };
    label("1", axes.plot.x - 3.0, one, Align::right);
    for (const double end : {range.low, range.high}) {
      const double y = axes.to_page(first, end).y;
      if (std::abs(y - one) > style.small)
        label(format_number(end), axes.plot.x - 3.0, y, Align::right);
    }
    label("mean", axes.plot.right() + 3.0, axes.plot.centre().y, Align::left);
  }

  /// Each loop's text, a bar over its tokens, and a line from its beginning down to the map's foot.
  void add_loops(Scene& scene, const Style& style, const Axes& axes) const {
    const Rect& map = axes.plot;
    const double bar_top = map.y - kAbove + kWords + kGap;
    const double words = bar_top - kGap;
    if (loops.spans.empty()) {
      scene.add(make_text(style, "The text has no loop", {map.x, words}, style.small));
      return;
    }
    double free = map.x;
    for (std::size_t i = 0; i < loops.spans.size(); ++i) {
      const Loop& loop = loops.spans[i];
      const double left = axes.to_page(loop.first, axes.y.first).x;
      const double right = axes.to_page(loop.first + loop.tokens, axes.y.first).x;
      scene.add(PushClip{{map.x, 0.0, map.width, map.bottom()}});
      Path bar{.fill = style.colours.evicted};
      bar.rect({left, bar_top, right - left, kBar});
      scene.add(std::move(bar));
      scene.add(make_line({left, bar_top}, {left, map.bottom()}, style.colours.evicted, 0.8));
      scene.add(PopClip{});
      const double x = std::max(left, map.x);
      const double room = map.right() - x;
      if (x < free || left >= map.right() || right <= map.x) continue;
      const std::string times = fmt::format("{} times", loop.repeats());
      const std::string name = style.fonts->fit(
          texts[i].empty() ? times : fmt::format("{}: \u201C{}\u201D", times, texts[i]),
          Font::regular, style.small, room);
      scene.add(make_text(style, name, {x, words}, style.small));
      free = x + style.fonts->width(name, Font::regular, style.small) + 6.0;
    }
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const Replay& replay = *input.policy_a;
  auto figure = std::make_unique<LoopsFigure>();
  const int over = static_cast<int>(std::lround(chosen_number(input, "over")));  // tokens of a mean
  figure->first = trace.run().prompt_length;
  figure->given = !given_tokens(trace).range.empty();
  figure->last = trace.length() - 1;
  figure->same_heads = trace.model().cache_heads.empty();
  figure->loops = find_loops(trace.tokens().ids, figure->first);
  for (const Loop& loop : figure->loops.spans) {
    std::string text;
    for (int i = loop.first; i < loop.first + loop.length && !trace.tokens().text.empty(); ++i) {
      text += trace.tokens().text[static_cast<std::size_t>(i)];
    }
    text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
    figure->texts.push_back(in_one_line(text, 40));
  }
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    for (int index = 0; index < trace.layer_model(layer).num_kv_heads; ++index) {
      progress.check();
      LoopRow row{layer, index, {}};
      row.lost.assign(static_cast<std::size_t>(figure->last + 1 - figure->first), kNothing);
      if (const HeadReplay* head = replay.find(layer, index)) {
        const std::vector<double> lost =
            lost_ranges(trace.value(layer, index), head->evicted_at, replay.blocks);
        for (std::size_t step = 0; step < lost.size(); ++step) {
          const int token = replay.blocks[step].end - 1;
          if (token >= figure->first)
            row.lost[static_cast<std::size_t>(token - figure->first)] = lost[step];
        }
      }
      row.lost = trailing_means(row.lost, over);
      figure->rows.push_back(std::move(row));
    }
  }
  for (int token = figure->first; token <= figure->last; ++token) {
    double sum = 0.0;
    long heads = 0;
    for (const LoopRow& row : figure->rows) {
      const double lost = row.lost[static_cast<std::size_t>(token - figure->first)];
      if (std::isnan(lost)) continue;
      sum += lost;
      ++heads;
    }
    figure->mean.push_back(heads > 0 ? sum / static_cast<double>(heads) : kNothing);
  }
  std::string& text = figure->caption_text = fmt::format(
      "Value range of the entries that leave each head while the model writes, divided by the mean "
      "over the head's entries, under {}, N = {}{}. Curve: the mean over the heads; dashed: 1. "
      "Map: "
      "each head, less 1, so that 0 is what chance would take; grey: none leaves. ",
      replay.policy, format_count(replay.budget),
      over > 1 ? fmt::format("; mean over the last {} tokens", over) : "");
  if (figure->loops.spans.empty()) {
    text += "The text has no loop.";
    return figure;
  }
  text += fmt::format("Bars: loops, which take {:.0f} % of the text; the first begins at token {}",
                      100.0 * figure->loops.share(), figure->loops.spans.front().first);
  const std::string& first = figure->texts.front();
  text += first.empty() ? "." : fmt::format(", with \"{}\".", first);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "loops", "Loops and lost values",
      "Where the text that the model wrote begins to repeat itself, above; below, what each head "
      "lost at each written token: the value range of the entries that left, as a multiple of the "
      "mean of all (VaSE, arXiv 2606.03928: loops begin when large ranges leave)",
      Topic::kept, compute, kTwoColumns, 1.8);
  info.zoom = Zoom::x;
  info.limits = true;
  info.choices = {number_choice("over", "Mean over",
                                "The last so many tokens whose losses are averaged: 1 shows each "
                                "step alone",
                                "8", 1, 1024)};
  info.needs = {.policy = true, .all_layers = true};
  info.unavailable = [](const Trace& trace) -> std::string {
    return trace.length() > trace.run().prompt_length
               ? ""
               : "the trace has no generated tokens; capture it with --generate N";
  };
  return info;
}

}  // namespace kvloupe::figure::loops_figure
