// Heads × tokens: the step at which each token left each head.

#include "analysis/math/numeric/statistics.h"
#include "app/figure/figures/figures.h"
#include "app/plot/map_plot.h"

namespace kvloupe::figure::survival_figure {

namespace {
constexpr double kMargin = 34.0;   // points: the share of heads above the map
constexpr double kHighest = 1.05;  // of the width: a column holds more than one figure
constexpr double kMostColumns = 4096;

struct Row {
  int layer = 0, head = 0;
  std::vector<std::int32_t> evicted_at;  // [tokens shown]; empty: not replayed yet
};

constexpr std::size_t kMostRegions = 40000;

class Survival final : public Figure {
 public:
  int first = 0, last = 0;  // tokens, both included
  int steps = 0;
  bool by_layer = true;
  bool same_heads = true;  // all layers have a cache with as many heads
  std::vector<Row> rows;

  double natural_height(const DrawRequest& request) const override {
    const double most = std::clamp(kHighest * request.width, 180.0, 420.0);
    return kMargin + 34.0 + std::clamp(7.0 * static_cast<double>(rows.size()), 90.0, most);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    MapPlot plot;
    plot.x = {AxisMeaning::token, AxisScale::linear, static_cast<double>(first), last + 1.0,
              "Token"};
    if (request.x_range) plot.x.show(*request.x_range);
    plot.y = {AxisMeaning::value, AxisScale::linear, 0.0, static_cast<double>(rows.size()),
              by_layer ? "Layer" : "Head, by likeness"};
    if (by_layer && !same_heads) {
      std::vector<std::string> names;
      for (const Row& row : rows) names.push_back(fmt::format("{}.{}", row.layer, row.head));
      plot.y = name_axis(std::move(names), "Layer.head");
    } else if (by_layer) {
      const int heads = heads_per_layer();
      plot.y = {AxisMeaning::layer, AxisScale::linear, static_cast<double>(rows.front().layer),
                static_cast<double>(rows.front().layer) + static_cast<double>(rows.size()) / heads,
                "Layer"};
    }
    plot.scale = scale(request);
    plot.aspect = 0.0;
    plot.top = kMargin + 3.0;
    const Rect rect = map_rect(style, plot, request.width, request.height);
    const double shown = std::abs(plot.x.last - plot.x.first);  // tokens in the map's width
    const double room = rect.width * (last + 1 - first) / shown * request.pixels_per_point;
    const ColourLookup colour(plot.scale);
    add_map(scene, style, plot, rect,
            blend_cells({0, static_cast<int>(rows.size()), 0, last + 1 - first},
                        static_cast<int>(std::min(room, kMostColumns)),
                        static_cast<int>(rect.height * request.pixels_per_point),
                        [&](int row, int token) {
                          const double step = value_at(rows[static_cast<std::size_t>(row)],
                                                       static_cast<std::size_t>(token));
                          return std::isnan(step) ? style.colours.paper : colour(step);
                        }),
            {static_cast<double>(first), last + 1.0, plot.y.first, plot.y.last});
    add_share(scene, style, plot, rect);
    const double height = rect.height / static_cast<double>(rows.size());
    add_cell_regions(scene, rect, rows.size(), 1, [&](std::size_t r, std::size_t) {
      return Target{.layer = rows[r].layer, .head = rows[r].head};
    });
    add_token_regions(scene, {rect, plot.x, plot.y}, height);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"layer", "head", "token", "left_at_step"});
    for (const Row& row : rows) {
      for (std::size_t i = 0; i < row.evicted_at.size(); ++i) {
        csv.row({row.layer, row.head, first + i, row.evicted_at[i]});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < first || target.token > last) return {};
    const auto token = static_cast<std::size_t>(target.token - first);
    const auto kept = std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
      return !row.evicted_at.empty() && row.evicted_at[token] < 0;
    });
    const std::string all = fmt::format("kept by {} of {} heads", kept, rows.size());
    const auto own = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
      return row.layer == target.layer && row.head == target.head;
    });
    if (own == rows.end() || own->evicted_at.empty()) return all;
    const int step = own->evicted_at[token];
    return (step < 0 ? std::string("stays; ") : fmt::format("leaves at step {}; ", step)) + all;
  }

 private:
  int heads_per_layer() const {
    return static_cast<int>(std::count_if(
        rows.begin(), rows.end(), [&](const Row& row) { return row.layer == rows.front().layer; }));
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts,
                        .low = 0.0,
                        .high = static_cast<double>(steps),
                        .label = fmt::format("Step of leaving ({}: stays)", steps)};
    choose_limits(colours, request.limits, Bounds{0.0, static_cast<double>(steps)});
    return colours;
  }

  double value_at(const Row& row, std::size_t token) const {
    if (row.evicted_at.empty()) return std::numeric_limits<double>::quiet_NaN();
    const int step = row.evicted_at[token];
    return step < 0 ? steps : step;
  }

  /// A web page has one text for each region: the tokens of each head, too, where they are not too
  /// many.
  void add_token_regions(Scene& scene, const Axes& axes, double height) const {
    const auto [low, high] = std::minmax(axes.x.first, axes.x.last);
    const int from = std::max(first, static_cast<int>(std::floor(low)));
    const int end = std::min(last + 1, static_cast<int>(std::ceil(high)));
    if (end <= from || static_cast<std::size_t>(end - from) * rows.size() > kMostRegions) return;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (int t = from; t < end; ++t) {
        const double left = std::max(axes.plot.x, axes.to_page(t, axes.y.first).x);
        const double right = std::min(axes.plot.right(), axes.to_page(t + 1, axes.y.first).x);
        scene.regions.push_back(
            {{left, axes.plot.y + static_cast<double>(r) * height, right - left, height},
             {.token = t, .layer = rows[r].layer, .head = rows[r].head}});
      }
    }
  }

  void add_share(Scene& scene, const Style& style, const MapPlot& plot, const Rect& map) const {
    Axis share{AxisMeaning::value, AxisScale::linear, 1.0, 0.0, ""};
    scene.add(make_text(style,
                        style.fonts->fit("share of heads that keep the token", Font::regular,
                                         style.small, map.width),
                        {map.x, 8.0}, style.small));
    const Rect strip{map.x, map.y - kMargin + 12.0, map.width, kMargin - 16.0};
    const Axes axes{strip, plot.x, share};
    Path area{.fill = style.colours.retained};
    const int from =
        std::max(first, static_cast<int>(std::floor(std::min(plot.x.first, plot.x.last))));
    const int to =
        std::min(last, static_cast<int>(std::ceil(std::max(plot.x.first, plot.x.last))) - 1);
    area.move({axes.to_page(from, 0.0).x, strip.bottom()});
    const int every = std::max(1, static_cast<int>((to - from) / std::max(strip.width * 4.0, 1.0)));
    for (int token = from; token <= to; token += every) {
      double mean = 0.0;
      const int end = std::min(token + every, to + 1);
      for (int t = token; t < end; ++t) mean += kept_share(t) / (end - token);
      const double y = axes.to_page(token, mean).y;
      area.line({axes.to_page(token, 0.0).x, y});
      area.line({axes.to_page(std::min(token + every, to + 1), 0.0).x, y});
    }
    area.line({axes.to_page(to + 1, 0.0).x, strip.bottom()}).close();
    scene.add(PushClip{{strip.x, strip.y - 1.0, strip.width, strip.height + 1.0}});
    scene.add(std::move(area));
    scene.add(PopClip{});
    AxisLook x = axis_look(style, plot.x, strip.width, true);
    x.labels = false;
    x.ticks.clear();
    AxisLook y{.ticks = {{1.0, "1"}}};
    add_axes(scene, style, axes, x, y);
  }

  double kept_share(int token) const {
    const auto at = static_cast<std::size_t>(token - first);
    const auto kept = std::count_if(rows.begin(), rows.end(), [&](const Row& row) {
      return !row.evicted_at.empty() && row.evicted_at[at] < 0;
    });
    return static_cast<double>(kept) / static_cast<double>(rows.size());
  }
};

/// From the first row on, each time the row most like the last: a chain of similar heads.
std::vector<Row> by_likeness(std::vector<Row> rows, Progress& progress) {
  std::vector<Row> ordered;
  ordered.push_back(std::move(rows.front()));
  rows.erase(rows.begin());
  while (!rows.empty()) {
    progress.check();
    const std::vector<std::int32_t>& last = ordered.back().evicted_at;
    std::size_t best = 0;
    double most = -1.0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto keeps = [](const std::vector<std::int32_t>& evicted) {
        return
            [&evicted](std::int32_t token) { return evicted[static_cast<std::size_t>(token)] < 0; };
      };
      const double likeness = set_overlap(0, static_cast<std::int32_t>(last.size()), keeps(last),
                                          keeps(rows[i].evicted_at))
                                  .jaccard();
      if (likeness <= most) continue;
      most = likeness;
      best = i;
    }
    ordered.push_back(std::move(rows[best]));
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return ordered;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Survival>();
  const Replay& replay = *input.policy_a;
  figure->first = input.selection.first_token;
  figure->last =
      input.selection.last_token < 0 ? input.trace->length() - 1 : input.selection.last_token;
  figure->steps = static_cast<int>(replay.blocks.size());
  figure->caption_text = fmt::format(
      "Step at which each token leaves each head under {}; the last colour: the token stays. Rows "
      "are heads, {}. Above: the share of heads in which a token stays to the end.",
      replay.policy,
      input.choice("order") == "layer"
          ? "layer by layer"
          : "each beside the head that keeps the most similar tokens (Jaccard), from the first "
            "head on");
  figure->by_layer = input.choice("order") == "layer";
  figure->same_heads = input.trace->model().cache_heads.empty();
  for (int layer = 0; layer < input.trace->model().num_layers; ++layer) {
    for (int index = 0; index < input.trace->layer_model(layer).num_kv_heads; ++index) {
      Row row{layer, index, {}};
      if (const HeadReplay* head = replay.find(layer, index)) {
        row.evicted_at.assign(head->evicted_at.begin() + figure->first,
                              head->evicted_at.begin() + figure->last + 1);
      }
      figure->rows.push_back(std::move(row));
    }
  }
  const bool whole = std::none_of(figure->rows.begin(), figure->rows.end(),
                                  [](const Row& row) { return row.evicted_at.empty(); });
  if (!figure->by_layer && whole) figure->rows = by_likeness(std::move(figure->rows), progress);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "survival", "Survival in all heads",
      "Every head is a row, every token a column; the colour is the step at which the token left "
      "the head. Above: the share of heads in which a token stays",
      Topic::kept, compute, kTwoColumns, 1.8);
  info.zoom = Zoom::x;
  info.limits = true;
  info.needs = {.tokens = true, .policy = true, .all_layers = true};
  info.choices = {
      word_choice("order", "Order",
                  "Heads layer by layer, or each beside the one that keeps the most similar tokens",
                  {"layer", "likeness"})};
  return info;
}

}  // namespace kvloupe::figure::survival_figure
