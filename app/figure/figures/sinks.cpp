// Attention sinks: how strong, what depends on them, and why they cost nothing to attend to.

#include "analysis/math/attention.h"
#include "analysis/math/sink.h"
#include "app/figure/figures/figures.h"
#include "app/figure/query_head_rows.h"

namespace kvloupe::figure::sinks_figure {

namespace {

constexpr double kHighestInColumn = 150.0;  // points: of a map of heads, one of two in a column
constexpr int most_averaged = 24;  // tokens of the averaged maps; StreamingLLM's figure has 16

/// One panel of cells with a colour bar of its own.
struct CellPanel {
  std::string title;
  Axis x, y;
  int rows = 1;
  int columns = 1;
  std::vector<float> values;  // [rows,columns]
  ColourScale colours;
  const char* number = "";               // fmt, empty: no numbers in the cells
  bool sinks = false;                    // cells above kSinkHead are outlined
  std::vector<QueryHeadRow> heads = {};  // [rows], where they are layers
  std::vector<int> present = {};         // [rows] columns that there are; empty: all
  int group = 0;                         // query heads of a head, where columns are query heads
};

/// Two maps side by side: what differs in scale cannot share a bar.
class CellMaps : public Figure {
 public:
  std::vector<CellPanel> panels;

  double natural_height(const DrawRequest& request) const override {
    const CellPanel& one = panels.front();
    const bool square = one.x.meaning == AxisMeaning::token;
    const auto count = static_cast<double>(panels.size());
    const double wide = (is_narrow(request) ? request.width : request.width / count) - 70.0;
    const double high = square ? wide : wide / cell_map_aspect(one.rows, one.columns);
    // Maps of deep models below each other would need a page.
    const double most = !square && is_narrow(request) ? kHighestInColumn : 400.0;
    const double each = std::clamp(high, 72.0, most) + 44.0;
    return is_narrow(request) ? count * each : each;
  }

  Scene draw(const DrawRequest& request) const override {
    Scene scene = make_scene(request.style, request.width, request.height);
    const auto count = static_cast<double>(panels.size());
    for (std::size_t p = 0; p < panels.size(); ++p) {
      const auto place = static_cast<double>(p);
      const Rect room =
          is_narrow(request)
              ? Rect{0.0, place * request.height / count, request.width, request.height / count}
              : Rect{place * request.width / count, 0.0, request.width / count, request.height};
      draw_panel(scene, request.style, static_cast<int>(p), room);
    }
    return scene;
  }

  /// The numbers, and what the pointer reads; `names`: two indices, then a value of each panel.
  void write(std::initializer_list<CsvWriter::Cell> names) {
    add_row(names);
    const CellPanel &a = panels.at(0), &b = panels.at(1);
    for (int r = 0; r < a.rows; ++r) {
      for (int c = 0; c < a.columns; ++c) {
        const auto at = static_cast<std::size_t>(r * a.columns + c);
        if (std::isnan(a.values[at])) continue;
        add_row({r, c, a.values[at], b.values[at]});
        const std::string text = fmt::format(
            "{} {}, {} {}", a.colours.label, format_number(static_cast<double>(a.values[at])),
            b.colours.label, format_number(static_cast<double>(b.values[at])));
        const bool heads = a.y.meaning == AxisMeaning::layer;
        say(heads ? Target{.layer = r, .query_head = c} : Target{.token = c, .other_token = r},
            text);
        if (heads && a.group == 1) say({.layer = r, .head = c}, text);
      }
    }
  }

 private:
  static bool is_narrow(const DrawRequest& request) { return request.width < 330.0; }

  /// Letter, title, map and bar within `room`.
  void draw_panel(Scene& scene, const Style& style, int place, const Rect& room) const {
    const CellPanel& panel = panels[static_cast<std::size_t>(place)];
    ColourScale colours = panel.colours;
    colours.map = style.amounts;
    const double top = room.y + style.text * 1.7 + 2.0;
    const AxisLook wide = axis_look(style, panel.x, room.width - 70.0, true);
    const double height =
        std::max(10.0, room.bottom() - top - bottom_margin(style, panel.x, wide) - 2.0);
    AxisLook y_look = axis_look(style, panel.y, height, false);
    const double left = room.x + 2.0 + left_margin(style, panel.y, y_look);
    const double width =
        std::max(10.0, room.right() - left - colour_bar_width(style, colours, height) - 8.0);
    AxisLook x_look = axis_look(style, panel.x, width, true);
    x_look.line = y_look.line = false;
    const Axes axes{{left, top, width, height}, panel.x, panel.y};
    add_axes(scene, style, axes, x_look, y_look);
    std::function<std::string(double)> number;
    if (*panel.number != '\0')
      number = [&](double value) { return fmt::format(fmt::runtime(panel.number), value); };
    add_cells(scene, style, axes, panel.values, panel.rows, panel.columns, colours, number,
              panel.present);
    if (panel.sinks) {
      std::vector<bool> outlined;
      for (const float value : panel.values) outlined.push_back(value > kSinkHead);
      outline_cells(scene, style, axes.plot, outlined, panel.rows, panel.columns);
    }
    if (panel.group > 0) add_query_head_regions(scene, axes.plot, panel.heads, panel.columns);
    add_colour_bar(scene, style, axes.plot, colours);
    add_panel_letter(scene, style, place, {left, room.y + 2.0});
    const double title = left + style.text * 1.4;
    scene.add(make_text(
        style, style.fonts->fit(panel.title, Font::regular, style.small, axes.plot.right() - title),
        {title, room.y + 2.0 + style.fonts->cap_height() * style.text}, style.small));
  }
};

/// Values [L,Hq] as a panel, one column to a query head.
CellPanel head_panel(const Trace& trace, const Matrix& values, std::string title,
                     std::string label) {
  const ModelInfo& model = trace.model();
  const int columns = trace.most_query_heads();
  CellPanel panel;
  panel.title = std::move(title);
  panel.rows = model.num_layers;
  panel.columns = columns;
  panel.y = layer_axis(model.num_layers);
  panel.group = model.group_size();
  panel.heads = query_head_rows(trace);
  panel.present = query_heads_of_layers(trace);
  panel.x = query_head_axis(columns, model.group_size());
  panel.colours.label = std::move(label);
  panel.number = "{:.2f}";
  panel.values.assign(values.data(), values.data() + values.size());
  return panel;
}

/// Queries that see token 0 and others, up to `last`: all, or as many spread evenly.
std::vector<int> spread_queries(int last) {
  constexpr int most = 64;
  std::vector<int> queries;
  const int count = std::clamp(last, 1, most);
  for (int i = 1; i <= count; ++i)
    queries.push_back(static_cast<int>(static_cast<long>(std::max(last, 1)) * i / count));
  return queries;
}

std::unique_ptr<const Figure> heads_figure(const FigureInput& input, int last, Progress& progress) {
  const Reach reach = input.trace->narrowest_reach();
  // No query beyond it would miss token 0.
  if (!reach.all()) last = std::min(last, std::max(reach.span() - 1, 1));
  auto figure = std::make_unique<CellMaps>();
  figure->panels.push_back(head_panel(*input.trace, sink_strengths(*input.trace, 0, progress),
                                      "Sink strength of token 0", "Mean attention"));
  figure->panels.back().sinks = true;
  const std::vector<int> queries = spread_queries(last);
  CellPanel drop =
      head_panel(*input.trace, dropped_token_errors(*input.trace, 0, queries, progress),
                 "Output error without token 0", "‖o′ − o‖ / ‖o‖");
  ValueRange range;
  for (const float value : drop.values) range.add(static_cast<double>(value));
  drop.colours.high = range.empty() || range.high <= 0.0 ? 1.0 : range.high;
  if (drop.colours.high < 0.01) drop.number = "";  // all would read 0.00
  figure->panels.push_back(std::move(drop));
  figure->write({"layer", "query_head", "sink_strength", "error_without_token_0"});
  figure->caption_text = fmt::format(
      "a, mean attention on token 0 from all later queries{}, per query head, outlined above 0.3; "
      "b, relative error of the head's output (before W_O) if token 0 alone is evicted, mean over "
      "{} queries between tokens 1 and {}.",
      reach.all() ? ""
                  : fmt::format(" that see it within the model's {} of {} tokens", reach.name(),
                                format_count(reach.span())),
      queries.size(), last);
  figure->caption_text += absent_rows_text(figure->panels.front().present);
  return figure;
}

std::unique_ptr<const Figure> averages_figure(const FigureInput& input, bool all_layers,
                                              Progress& progress) {
  const ModelInfo& model = input.trace->model();
  std::vector<int> layers{input.selection.layer};
  if (all_layers) {
    layers.clear();
    for (int layer = 0; layer < model.num_layers; ++layer) {
      if (input.trace->attends(layer)) layers.push_back(layer);
    }
  }
  const int n = std::min(most_averaged, input.trace->length());
  const MeanAttention mean = mean_attention(*input.trace, layers, n, progress);
  auto figure = std::make_unique<CellMaps>();
  const auto panel = [&](const Matrix& values, std::string title, std::string label, bool sign) {
    CellPanel one;
    one.title = std::move(title);
    one.rows = one.columns = n;
    one.x = {AxisMeaning::token, AxisScale::linear, 0.0, static_cast<double>(n), "Key token"};
    one.y = {AxisMeaning::token, AxisScale::linear, 0.0, static_cast<double>(n), "Query token"};
    one.values.assign(values.data(), values.data() + values.size());
    one.colours.label = std::move(label);
    ValueRange range;
    for (const float value : one.values) range.add(static_cast<double>(value));
    if (sign) {
      one.colours.is_signed = true;
      one.colours.high = std::max({std::abs(range.low), std::abs(range.high), 1e-9});
      one.colours.low = -one.colours.high;
    }
    return one;
  };
  figure->panels.push_back(panel(mean.logits, "Logits, averaged", "Mean logit", true));
  figure->panels.push_back(
      panel(mean.probabilities, "Probabilities, averaged", "Mean attention", false));
  figure->write({"query", "key", "mean_logit", "mean_attention"});
  figure->caption_text = fmt::format(
      "Attention among the first {} tokens, mean over all query heads of {}: a, logits; b, "
      "probabilities. A sink that is clear in b may be weak in a, which averages logits "
      "(StreamingLLM, figure 2, shows logits).",
      n,
      all_layers ? fmt::format("the {} layers", layers.size())
                 : fmt::format("layer {}", input.selection.layer));
  return figure;
}

/// Norms of every token's value and the attention it receives, in one head.
std::unique_ptr<const Figure> norms_figure(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  const Matrix values = trace.value(s.layer, s.head);
  const Matrix keys = trace.key(s.layer, s.head);
  const int group = trace.layer_model(s.layer).group_size();
  std::vector<double> attention(static_cast<std::size_t>(trace.length()), 0.0);
  for (int g = 0; g < group; ++g) {
    const Matrix queries = trace.query(s.layer, s.head * group + g);
    const std::vector<float> received = received_attention(
        view(queries), view(keys), trace.attention(s.layer).of(s.head * group + g),
        trace.reach(s.layer), progress);
    for (std::size_t t = 0; t < received.size(); ++t)
      attention[t] += static_cast<double>(received[t]) / group;
  }
  LinePanels::Panel received{.title = "Attention received"}, norms{.title = "Norm of the value"};
  for (LinePanels::Panel* panel : {&received, &norms}) {
    panel->dots = {{.look = 0, .size = 2.0},
                   {.look = 6, .shape = MarkerShape::triangle, .size = 5.5, .beside = "token 0"}};
  }
  auto figure = std::make_unique<LinePanels>();
  figure->add_row({"token", "received_attention", "value_norm_l2"});
  ValueRange positive, norm;
  for (int t = 0; t < trace.length(); ++t) {
    const double own = attention[static_cast<std::size_t>(t)];
    const auto length = static_cast<double>(values.row(t).norm());
    for (const auto& [panel, value] : {std::pair{&received, own}, {&norms, length}}) {
      LinePanels::Dots& dots = panel->dots[t == 0 ? 1 : 0];
      dots.points.push_back({static_cast<double>(t), value});
      dots.tokens.push_back(t);
    }
    if (own > 0.0) positive.add(own);
    norm.add(length);
    figure->add_row({t, own, length});
    figure->say({.token = t},
                fmt::format("attention {}, norm {}", format_number(own), format_number(length)));
  }
  received.x = norms.x = x_axis("Token", {-0.02 * trace.length(), 1.02 * trace.length()});
  received.y = y_axis("Mean attention", within(positive.padded_log(), kShare), AxisScale::log);
  norms.y = y_axis("‖v‖₂", norm.from_zero());
  figure->panels = {std::move(received), std::move(norms)};
  figure->legend = true;  // no names at the ends of lines
  figure->least_width = 90.0;
  figure->aspect = 1.35;
  figure->caption_text = fmt::format(
      "Layer {}, head {}: a, mean attention that a token receives from later ones; b, the norm of "
      "its value. Token 0 is the triangle: a sink receives much attention and, with a small value, "
      "adds little.",
      s.layer, s.head);
  return figure;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const std::string& show = input.choice("show");
  if (show == "norms") return norms_figure(input, progress);
  if (show == "heads") {
    const int last = replay_blocks(*input.trace, input.block, input.compression)
                         .at(static_cast<std::size_t>(input.selection.step))
                         .end -
                     1;
    return heads_figure(input, last, progress);
  }
  return averages_figure(input, show == "averages-model", progress);
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "sinks", "Sinks",
      "Attention sinks: the mean attention on token 0 and the output error without it, per query "
      "head; logits and probabilities averaged over heads (StreamingLLM, figure 2); norms of "
      "values",
      Topic::attention, compute, kTwoColumns, 2.4);
  info.needs = {.head = true, .step = true, .comparison = true};
  info.choices = {
      word_choice("show", "Show",
                  "Strength of the sink and error without it; mean attention of the layer or the "
                  "model; value norms of the head",
                  {"heads", "averages", "averages-model", "norms"})};
  info.shows = [](std::string_view setting, const Choices&) {  // no policy is at work
    return setting != "budget";
  };
  return info;
}

}  // namespace kvloupe::figure::sinks_figure
