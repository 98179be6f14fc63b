// The attention map, recomputed from queries and keys.

#include "analysis/math/attention.h"
#include "analysis/math/attention_map.h"
#include "app/figure/figures/figures.h"
#include "app/plot/map_margin.h"

namespace kvloupe::figure::attention_figure {

namespace {

constexpr int most_pixels = 1024;

class Attention final : public Figure {
 public:
  Selection selection;
  Matrix map;   // [pixels,pixels] of the selected range; NaN where no query sees a key
  Reach reach;  // of the layer's queries
  KeyStrip strip;
  std::vector<SinkColumn> columns;  // of the strip's sinks
  bool logits = false;
  bool log_scale = true;
  Pooling pooling = Pooling::max;
  std::string of;

  double natural_height(const DrawRequest& request) const override {
    return map_natural_height(request.style, plot(request, request.width), request.width);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const MapPlot map_plot = plot(request, request.height);
    const Rect rect = map_rect(style, map_plot, request.width, request.height);
    const double first = selection.first_token;
    const double end = selection.last_token + 1.0;
    add_map(scene, style, map_plot, rect,
            paint({map.data(), static_cast<std::size_t>(map.size())}, static_cast<int>(map.cols()),
                  static_cast<int>(map.rows()), map_plot.scale),
            {first, end, first, end});
    add_sink_columns(scene, style, map_plot, rect, columns, {first, end});
    add_key_strip(scene, style, map_plot, rect, strip);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    const double tile =
        (selection.last_token - selection.first_token + 1.0) / static_cast<double>(map.cols());
    csv.row({"query_token", "key_token", "tokens_per_tile", logits ? "logit" : "attention",
             "key_receives_mean"});
    const std::vector<double> received = received_by_pixel();
    for (Eigen::Index y = 0; y < map.rows(); ++y) {
      for (Eigen::Index x = 0; x < map.cols(); ++x) {
        if (std::isnan(map(y, x))) continue;
        csv.row({selection.first_token + y * tile, selection.first_token + x * tile, tile,
                 map(y, x), received[static_cast<std::size_t>(x)]});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    const int count = selection.last_token - selection.first_token + 1;
    const long row = target.other_token - selection.first_token;
    const long column = target.token - selection.first_token;
    if (target.other_token < 0) return received_text(target.token);
    if (row < 0 || column < 0 || row >= count || column >= count) return {};
    float value = map(row * map.rows() / count, column * map.cols() / count);
    for (const SinkColumn& sink : columns) {
      if (sink.token == target.token)
        value = sink.values[static_cast<std::size_t>(row * map.rows() / count)];
    }
    if (std::isnan(value)) {
      const bool beyond = target.token < first_seen(target.other_token, reach);
      return beyond ? fmt::format("not seen: beyond the {} of {} tokens", reach.name(),
                                  format_count(reach.span()))
                    : "";
    }
    return std::string(logits ? "logit " : "attention ") +
           format_number(static_cast<double>(value));
  }

  std::string caption() const override {
    std::string text = fmt::format(
        "{} of {}, layer {}, {}", logits ? "Attention logits" : "Attention",
        format_tokens(selection.first_token, selection.last_token), selection.layer, of);
    if (map.cols() <= selection.last_token - selection.first_token) {
      text += pooling == Pooling::max ? "; each pixel is the largest value of its tile"
                                      : "; each pixel is the mean of its tile";
    }
    if (!reach.all() && selection.last_token - selection.first_token >= reach.span()) {
      text += fmt::format("; blank below the diagonal: beyond the model's {} of {} tokens",
                          reach.name(), format_count(reach.span()));
    }
    text +=
        ". Above, the mean attention that each key receives from the queries that see it, paler "
        "where these are few";
    if (!strip.sinks.empty()) {
      text += fmt::format(
          "; triangles: sinks, which receive more than 0.3; left, outlined: {} of the map, "
          "enlarged",
          columns.size() == 1 ? "the column of the strongest sink"
                              : "the columns of the strongest sinks");
    }
    return text + ".";
  }

 private:
  /// For each column of pixels, the most attention that one of its keys receives.
  std::vector<double> received_by_pixel() const {
    const long count = selection.last_token - selection.first_token + 1L;
    std::vector<double> result(static_cast<std::size_t>(map.cols()), 0.0);
    for (long i = 0; i < count; ++i) {
      double& pixel = result[static_cast<std::size_t>(i * map.cols() / count)];
      pixel = std::max(pixel, strip.values[static_cast<std::size_t>(selection.first_token + i)]);
    }
    return result;
  }

  std::string received_text(int token) const {
    if (token < 0 || token >= static_cast<int>(strip.values.size())) return {};
    return "receives " + format_number(strip.values[static_cast<std::size_t>(token)]) +
           " on average";
  }

  MapPlot plot(const DrawRequest& request, double height) const {
    const std::pair<double, double> all(selection.first_token, selection.last_token + 1.0);
    const auto [x0, x1] = request.x_range.value_or(all);
    const auto [y0, y1] = request.y_range.value_or(all);
    MapPlot result{.x = {AxisMeaning::token, AxisScale::linear, x0, x1, "Key token"},
                   .y = {AxisMeaning::token, AxisScale::linear, y0, y1, "Query token"}};
    result.scale.map = request.style.amounts;
    result.scale.label = logits ? "Attention logit" : "Attention";
    result.aspect = std::clamp((x1 - x0) / (y1 - y0), 0.25, 4.0);
    leave_margins(result, strip, columns.size(), height);
    limits(result.scale);
    choose_limits(result.scale, request.limits, logits ? Bounds{} : kShare);
    return result;
  }

  /// From the values themselves: logarithmic down to the first percentile of the cells, at most
  /// five decades; else from the least to the largest.
  void limits(ColourScale& scale) const {
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(map.size()));
    for (const float v : map.reshaped()) {
      if (std::isfinite(v) && (logits || v > 0)) values.push_back(v);
    }
    if (values.empty()) values = {0.1F, 1.0F};
    std::sort(values.begin(), values.end());
    const double high = static_cast<double>(values.back());
    const double low = static_cast<double>(values[values.size() / 100]);
    if (logits) {
      scale.low = low;
      scale.high = high > low ? high : low + 1.0;
    } else if (log_scale) {
      scale.scale = AxisScale::log;
      scale.high = std::min(1.0, std::pow(10.0, std::ceil(std::log10(high) - 1e-6)));
      scale.low = std::pow(10.0, std::floor(std::log10(std::max(low, scale.high * 1e-5)) + 1e-6));
      if (!(scale.low < scale.high)) scale.low = scale.high / 10.0;
    } else {
      scale.low = 0.0;
      scale.high = high;
    }
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  auto figure = std::make_unique<Attention>();
  figure->selection = s;
  figure->pooling = input.choice("pooling") == "max" ? Pooling::max : Pooling::mean;
  figure->log_scale = input.choice("scale") == "log";
  figure->logits = input.choice("unit") == "logit";

  AttentionWindow window;
  window.query_first = window.key_first = s.first_token;
  window.query_end = window.key_end = s.last_token + 1;
  window.width = window.height = std::min(window.query_end - window.query_first, most_pixels);
  window.pooling = figure->pooling;
  window.unit = figure->logits ? AttentionUnit::logit : AttentionUnit::probability;
  window.seen = figure->reach = trace.reach(s.layer);

  const int group = trace.layer_model(s.layer).group_size();
  const int first = s.query_head >= 0 ? s.query_head : s.head * group;
  const int count = s.query_head >= 0 ? 1 : group;
  figure->of = s.query_head >= 0 ? fmt::format("query head {}", s.query_head)
               : group > 1 ? fmt::format("mean over the {} query heads of head {}", group, s.head)
                           : fmt::format("head {}", s.head);
  const LayerAttention attention = trace.attention(s.layer);
  const Matrix keys = trace.key(s.layer, s.head);
  std::vector<double>& received = figure->strip.values;
  received.assign(static_cast<std::size_t>(trace.length()), 0.0);
  std::vector<Matrix> queries;
  std::vector<std::vector<float>> logsumexps;
  for (int q = first; q < first + count; ++q) {
    queries.push_back(trace.query(s.layer, q));
    logsumexps.push_back(attention_logsumexp(trace, s.layer, q, progress));
    const std::vector<float> mean = received_attention(view(queries.back()), view(keys),
                                                       attention.of(q), window.seen, progress);
    for (std::size_t t = 0; t < mean.size(); ++t)
      received[t] += static_cast<double>(mean[t]) / count;
  }
  // The mean over the query heads.
  const auto map_of = [&](const AttentionWindow& part) {
    Matrix sum = Matrix::Zero(part.height, part.width);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      sum += attention_map(view(queries[i]), view(keys), attention.of(first + static_cast<int>(i)),
                           logsumexps[i], part, progress);
    }
    return Matrix(sum / static_cast<float>(count));
  };
  figure->map = map_of(window);
  figure->strip.pale_from = first_uncertain(trace.length(), window.seen);
  figure->strip.sinks = sinks_among(received, s.first_token, s.last_token, window.seen);
  for (const int token : strongest_sinks(figure->strip)) {
    AttentionWindow column = window;
    column.key_first = token;
    column.key_end = token + 1;
    column.width = 1;
    const Matrix values = map_of(column);
    figure->columns.push_back({token, {values.data(), values.data() + values.size()}});
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "attention", "Attention map",
      "A = softmax(QKᵀ/√d), causal and within the model's window, recomputed in float32 from "
      "queries and keys, never read from a stored 16-bit map. Above, the mean attention that each "
      "key receives; triangles mark sinks, which receive more than 0.3. Left, the columns of the "
      "sinks, enlarged",
      Topic::attention, compute);
  info.zoom = Zoom::linked;
  info.limits = true;
  info.needs = {.head = true, .tokens = true};
  info.choices = {
      word_choice("pooling", "Pooling",
                  "A pixel that covers several cells shows their largest value or their mean. A "
                  "needle is one cell; only the largest value shows it",
                  {"max", "mean"}),
      word_choice("scale", "Scale", "Logarithmic or linear colours", {"log", "linear"}),
      word_choice("unit", "Unit", "Softmax rows, or the scaled products before the softmax",
                  {"probability", "logit"})};
  return info;
}

}  // namespace kvloupe::figure::attention_figure
