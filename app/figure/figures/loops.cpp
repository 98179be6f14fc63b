// What a model wrote again and again, beside the value range of what each head lost before.

#include "analysis/trace/loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/one_line.h"
#include "analysis/policy/kit/value_range.h"
#include "app/figure/comparison.h"
#include "app/figure/figures/figures.h"
#include "app/plot/blended_cells.h"
#include "app/plot/limits.h"
#include "app/plot/map_plot.h"

namespace kvloupe::figure::loops_figure {

namespace {
constexpr double kAbove = 30.0;  // points: the loops above the map
constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

struct LoopRow {
  int layer = 0, head = 0;
  std::vector<double> lost;  // [generated tokens]; NaN: nothing left the head at that step
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

class LoopsFigure final : public Figure {
 public:
  int first = 0, last = 0;  // generated tokens, both included
  bool same_heads = true;   // all layers have a cache with as many heads
  std::string policy;
  Loops loops;
  std::vector<std::string> texts;  // of each loop, once
  std::vector<LoopRow> rows;

  double natural_height(const DrawRequest& request) const override {
    const double most = std::clamp(1.05 * request.width, 180.0, 420.0);
    return kAbove + 34.0 + std::clamp(7.0 * static_cast<double>(rows.size()), 90.0, most);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    MapPlot plot;
    plot.x = {AxisMeaning::token, AxisScale::linear, static_cast<double>(first), last + 1.0,
              "Generated token"};
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
      plot.y = name_axis(std::move(names), "Layer.head");
    }
    plot.scale = scale(request);
    plot.aspect = 0.0;
    plot.top = kAbove + 3.0;
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
                      return std::isnan(lost) ? style.colours.paper : colour(lost);
                    }),
        {static_cast<double>(first), last + 1.0, plot.y.first, plot.y.last});
    const Axes axes{rect, plot.x, plot.y};
    add_loops(scene, style, axes);
    const double height = rect.height / count;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      scene.regions.push_back(
          {{rect.x, rect.y + static_cast<double>(r) * height, rect.width, height},
           {.layer = rows[r].layer, .head = rows[r].head}});
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row(
        {"token", "layer", "head", "lost_value_range", "loop_first", "loop_length", "loop_tokens"});
    constexpr std::string_view none;
    for (const Loop& loop : loops.spans) {
      csv.row({none, none, none, none, static_cast<long>(loop.first),
               static_cast<long>(loop.length), static_cast<long>(loop.tokens)});
    }
    for (const LoopRow& row : rows) {
      for (std::size_t i = 0; i < row.lost.size(); ++i) {
        if (std::isnan(row.lost[i])) continue;
        csv.row({static_cast<long>(first) + static_cast<long>(i), static_cast<long>(row.layer),
                 static_cast<long>(row.head), row.lost[i], none, none, none});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < first || target.token > last) return {};
    const auto own = std::find_if(rows.begin(), rows.end(), [&](const LoopRow& row) {
      return row.layer == target.layer && row.head == target.head;
    });
    if (own == rows.end()) return {};
    const double lost = own->lost[static_cast<std::size_t>(target.token - first)];
    return std::isnan(lost) ? "nothing leaves" : "lost value range " + format_number(lost);
  }

  std::string caption() const override {
    std::string text = fmt::format(
        "Value range of the entries that leave each head while the model writes, as a multiple of "
        "the mean over the entries that are there, under {}; white: none leaves. ",
        policy);
    if (loops.spans.empty()) return text + "The text has no loop.";
    const Loop& begins = loops.spans.front();
    text +=
        fmt::format("Bars: loops, which take {:.0f} % of the text; the first begins at token {}",
                    100.0 * loops.share(), begins.first);
    return text + (texts.front().empty() ? "." : fmt::format(", with \"{}\".", texts.front()));
  }

 private:
  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours;
    colours.map = request.style.amounts;
    colours.label = "Value range of what leaves / of all";
    colours.low = 0.0;
    colours.high = 1.0;
    for (const LoopRow& row : rows) {
      for (const double lost : row.lost) {
        if (!std::isnan(lost)) colours.high = std::max(colours.high, lost);
      }
    }
    choose_limits(colours, request.limits, Bounds{.least = 0.0});
    return colours;
  }

  /// Bars over the tokens of each loop, and a line through the map where it begins.
  void add_loops(Scene& scene, const Style& style, const Axes& axes) const {
    const Rect& map = axes.plot;
    scene.add(make_text(style,
                        style.fonts->fit(loops.spans.empty() ? "the text has no loop"
                                                             : "loops of the generated text",
                                         Font::regular, style.small, map.width),
                        {map.x, 8.0}, style.small));
    scene.add(PushClip{{map.x, 0.0, map.width, map.bottom()}});
    for (const Loop& loop : loops.spans) {
      const double left = axes.to_page(loop.first, axes.y.first).x;
      const double right = axes.to_page(loop.first + loop.tokens, axes.y.first).x;
      Path bar;
      bar.fill = style.colours.evicted;
      bar.move({left, map.y - 12.0})
          .line({right, map.y - 12.0})
          .line({right, map.y - 6.0})
          .line({left, map.y - 6.0})
          .close();
      scene.add(std::move(bar));
      Path line;
      line.stroke = Stroke{style.colours.evicted, 0.8, {}, Cap::butt};
      line.move({left, map.y - 12.0}).line({left, map.bottom()});
      scene.add(std::move(line));
    }
    scene.add(PopClip{});
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const Replay& replay = *input.policy_a;
  auto figure = std::make_unique<LoopsFigure>();
  figure->first = trace.run().prompt_length;
  figure->last = trace.length() - 1;
  figure->policy = fmt::format("{}, N = {}", replay.policy, format_count(replay.budget));
  figure->same_heads = trace.model().cache_heads.empty();
  figure->loops = find_loops(trace.tokens().ids, figure->first);
  for (const Loop& loop : figure->loops.spans) {
    std::string text;
    for (int i = loop.first; i < loop.first + loop.length && !trace.tokens().text.empty(); ++i) {
      text += trace.tokens().text[static_cast<std::size_t>(i)];
    }
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
      figure->rows.push_back(std::move(row));
    }
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info;
  info.name = "loops";
  info.title = "Loops and lost values";
  info.tooltip =
      "Where the text that the model wrote begins to repeat itself, above; below, what each head "
      "lost at each written token: the value range of the entries that left, as a multiple of the "
      "mean of all (VaSE, arXiv 2606.03928: loops begin when large ranges leave)";
  info.topic = Topic::kept;
  info.zoom = Zoom::x;
  info.limits = true;
  info.needs.policy = true;
  info.needs.all_layers = true;
  info.width_mm = 178.0;
  info.aspect = 1.8;
  info.unavailable = [](const Trace& trace) -> std::string {
    return trace.length() > trace.run().prompt_length
               ? ""
               : "the trace has no generated tokens; capture it with --generate N";
  };
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::figure::loops_figure
