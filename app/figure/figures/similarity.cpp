// Cosine of every key (or value) to every other, at any zoom.

#include "analysis/math/attention.h"
#include "analysis/math/attention_map.h"
#include "analysis/math/pca.h"
#include "analysis/math/rank_correlation.h"
#include "analysis/math/similarity_map.h"
#include "app/figure/figures/figures.h"
#include "app/plot/map_margin.h"

namespace kvloupe::figure::similarity_figure {

namespace {

constexpr int most_pixels = 1024;

/// The attention map that stands beside, of the same tokens.
struct AttentionBeside {
  Matrix map;   // [pixels,pixels]; NaN where no query sees a key
  Reach reach;  // of the layer's queries
  std::string of;
  KeyStrip likeness, received;  // of every key: mean cosine to the others, mean attention
  std::vector<SinkColumn> columns;
  double correlation = 0.0;  // ρ of the two
};

class Similarity final : public Figure {
 public:
  Similarity(const Matrix& rows, Selection selection, std::string of)
      : map_(view(rows)), normalised_(rows), selection_(selection), of_(std::move(of)) {
    for (Eigen::Index i = 0; i < normalised_.rows(); ++i) {
      const float norm = normalised_.row(i).norm();
      if (norm > 0) normalised_.row(i) /= norm;
    }
  }

  std::optional<AttentionBeside> attention;

  double natural_height(const DrawRequest& request) const override {
    const double width = own_width(request);
    const double one = map_natural_height(request.style, plot(request, width), width);
    return stacked(request) ? 2.0 * one : one;
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const double height = stacked(request) ? request.height / 2 : request.height;
    const MapPlot map = plot(request, height);
    const Rect rect = map_rect(style, map, own_width(request), height);
    add_cosines(scene, request, map, rect);
    if (attention) add_attention(scene, request, map, rect);
    keep_fitting_texts(scene);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    // At most 512 × 512 tiles, each with its own ends.
    const int count = selection_.last_token - selection_.first_token + 1;
    SimilarityWindow window;
    window.row_first = window.column_first = selection_.first_token;
    window.row_end = window.column_end = selection_.last_token + 1;
    window.height = window.width = std::min(count, 512);
    const Matrix values = map_.map(window);
    const double tile = static_cast<double>(count) / window.width;
    csv.row({"query_token", "key_token", "tokens_per_tile", "cosine"});
    for (int y = 0; y < window.height; ++y) {
      for (int x = 0; x < window.width; ++x) {
        csv.row({window.row_first + y * tile, window.column_first + x * tile, tile, values(y, x)});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < 0 || target.other_token < 0 || target.token >= normalised_.rows() ||
        target.other_token >= normalised_.rows()) {
      return {};
    }
    return "cos " + format_number(static_cast<double>(
                        normalised_.row(target.token).dot(normalised_.row(target.other_token))));
  }

  std::string caption() const override {
    const std::string text =
        fmt::format("Cosine similarity of {} of {}, layer {}, head {}", of_,
                    format_tokens(selection_.first_token, selection_.last_token), selection_.layer,
                    selection_.head);
    if (!attention) return text + ".";
    return text +
           fmt::format(
               " (a), and the attention between them, {}{}{} (b). Above the maps: each key's mean "
               "cosine to the others and the attention it receives; over all tokens Spearman's ρ "
               "of the two is {}.{}",
               attention->of, pooled() ? ", largest of each tile" : "",
               attention->reach.all()
                   ? ""
                   : fmt::format(", within the model's {} of {} tokens", attention->reach.name(),
                                 format_count(attention->reach.span())),
               format_number(attention->correlation, 2),
               attention->received.sinks.empty() ? ""
                                                 : " Triangles: sinks, which receive more than "
                                                   "0.3; outlined: their columns, enlarged.");
  }

 private:
  /// Two maps stand side by side where there is room, else one above the other.
  bool stacked(const DrawRequest& request) const { return attention && request.width < 330.0; }

  double own_width(const DrawRequest& request) const {
    return attention && !stacked(request) ? request.width / 2 : request.width;
  }

  bool pooled() const {
    return attention->map.cols() <= selection_.last_token - selection_.first_token;
  }

  void add_cosines(Scene& scene, const DrawRequest& request, const MapPlot& map,
                   const Rect& rect) const {
    const Style& style = request.style;
    // Whole tokens, so that a cell of the picture is a tile of the matrix.
    const double length = static_cast<double>(map_.length());
    SimilarityWindow window{.row_first = std::max(0.0, std::floor(map.y.first)),
                            .row_end = std::min(length, std::ceil(map.y.last)),
                            .column_first = std::max(0.0, std::floor(map.x.first)),
                            .column_end = std::min(length, std::ceil(map.x.last))};
    const auto pixels = [&](double tokens, double points) {
      return std::clamp(static_cast<int>(std::ceil(points * request.pixels_per_point)), 1,
                        std::max(1, static_cast<int>(tokens)));
    };
    window.width = pixels(window.column_end - window.column_first, rect.width);
    window.height = pixels(window.row_end - window.row_first, rect.height);
    const Matrix values = map_.map(window);
    add_map(scene, style, map, rect,
            paint({values.data(), static_cast<std::size_t>(values.size())}, window.width,
                  window.height, map.scale),
            {window.column_first, window.column_end, window.row_first, window.row_end});
  }

  /// Beside or below the map of cosines, as large.
  void add_attention(Scene& scene, const DrawRequest& request, const MapPlot& of_cosines,
                     const Rect& cosines) const {
    const Style& style = request.style;
    MapPlot map = of_cosines;
    map.inset = sink_columns_room(attention->columns.size());
    map.right -= map.inset;
    map.x.label = "Key token";
    map.y.label = "Query token";
    map.scale = attention_scale(style);
    if (stacked(request)) {
      map.top += request.height / 2;
    } else {
      map.left = request.width / 2 + 2.0;
    }
    Rect rect = map_rect(style, map, request.width, request.height);
    rect.width = std::min(rect.width, cosines.width);
    rect.height = std::min(rect.height, cosines.height);
    const double first = selection_.first_token;
    const double end = selection_.last_token + 1.0;
    const Matrix& values = attention->map;
    add_map(scene, style, map, rect,
            paint({values.data(), static_cast<std::size_t>(values.size())},
                  static_cast<int>(values.cols()), static_cast<int>(values.rows()), map.scale),
            {first, end, first, end});
    add_sink_columns(scene, style, map, rect, attention->columns, {first, end});
    add_key_strip(scene, style, of_cosines, cosines, attention->likeness);
    add_key_strip(scene, style, map, rect, attention->received);
    const double above = of_cosines.top - 2.0;
    add_panel_letter(scene, style, 0, {cosines.x, cosines.y - above});
    add_panel_letter(scene, style, 1, {rect.x, rect.y - above});
  }

  /// Whole decades, four at most.
  ColourScale attention_scale(const Style& style) const {
    float most = 0.0F;
    for (const float value : attention->map.reshaped()) {
      if (value > most) most = value;  // never for NaN
    }
    ColourScale scale{.map = style.amounts, .scale = AxisScale::log};
    scale.high =
        most > 0.0F ? std::pow(10.0, std::ceil(std::log10(static_cast<double>(most)) - 1e-6)) : 1.0;
    scale.low = scale.high * 1e-4;
    scale.label = "Attention";
    return scale;
  }

  MapPlot plot(const DrawRequest& request, double height) const {
    const std::pair<double, double> all(selection_.first_token, selection_.last_token + 1.0);
    const auto [x0, x1] = request.x_range.value_or(all);
    const auto [y0, y1] = request.y_range.value_or(all);
    MapPlot map{.x = {AxisMeaning::token, AxisScale::linear, x0, x1, "Token"},
                .y = {AxisMeaning::token, AxisScale::linear, y0, y1, "Token"}};
    map.scale.is_signed = true;
    map.scale.low = -1.0;
    map.scale.high = 1.0;
    map.scale.label = "Cosine similarity";
    choose_limits(map.scale, request.limits, kCosine);
    map.aspect = std::clamp((x1 - x0) / (y1 - y0), 0.25, 4.0);
    if (attention) {
      map.top = 2.0 + 1.6 * request.style.text;
      leave_margins(map, attention->likeness, 0, height);
      // As wide as the map of attention, which has the columns of its sinks beside it.
      map.right += sink_columns_room(attention->columns.size());
    }
    return map;
  }

  SimilarityMap map_;
  Matrix normalised_;  // [T,d]
  Selection selection_;
  std::string of_;
};

AttentionBeside attention_beside(const Trace& trace, const Selection& s, Progress& progress) {
  AttentionWindow window;
  window.query_first = window.key_first = s.first_token;
  window.query_end = window.key_end = s.last_token + 1;
  window.width = window.height = std::min(window.query_end - window.query_first, most_pixels);
  window.seen = trace.reach(s.layer);
  const int group = trace.layer_model(s.layer).group_size();
  const int first = s.query_head >= 0 ? s.query_head : s.head * group;
  const int count = s.query_head >= 0 ? 1 : group;
  const LayerAttention attention = trace.attention(s.layer).of_heads(first, count);
  const Matrix keys = trace.key(s.layer, s.head);
  AttentionBeside result;
  result.reach = window.seen;
  result.of = s.query_head >= 0 ? fmt::format("query head {}", s.query_head)
              : group > 1       ? fmt::format("mean over the {} query heads", group)
                                : fmt::format("head {}", s.head);
  std::vector<Matrix> queries;
  std::vector<std::vector<float>> logsumexps;
  for (int q = first; q < first + count; ++q) {
    queries.push_back(trace.query(s.layer, q));
    logsumexps.push_back(attention_logsumexp(trace, s.layer, q, progress));
  }
  const auto map_of = [&](const AttentionWindow& part) {
    Matrix mean = Matrix::Zero(part.height, part.width);
    for (std::size_t i = 0; i < queries.size(); ++i) {
      mean += attention_map(view(queries[i]), view(keys), attention.of(static_cast<int>(i)),
                            logsumexps[i], part, progress) /
              static_cast<float>(count);
    }
    return mean;
  };
  result.map = map_of(window);
  KeyAttention of_keys = key_attention(view(keys), queries, attention, window.seen, progress);
  result.correlation = of_keys.correlation;
  result.received.values = std::move(of_keys.received);
  result.received.pale_from = first_uncertain(trace.length(), window.seen);
  result.received.sinks =
      sinks_among(result.received.values, s.first_token, s.last_token, window.seen);
  result.likeness.values = std::move(of_keys.mean_cosines);
  result.likeness.pale_from = trace.length();
  result.likeness.likeness = true;
  result.likeness.sinks = result.received.sinks;
  for (const int token : strongest_sinks(result.received)) {
    AttentionWindow column = window;
    column.key_first = token;
    column.key_end = token + 1;
    column.width = 1;
    const Matrix values = map_of(column);
    result.columns.push_back({token, {values.data(), values.data() + values.size()}});
  }
  return result;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const bool values = input.choice("of") == "values";
  const bool before = input.choice("rope") == "before";
  Matrix rows = values ? input.trace->value(s.layer, s.head) : input.trace->key(s.layer, s.head);
  progress.check();
  std::string of = values ? "the values" : before ? "the keys before RoPE" : "the keys";
  if (before && !values) rows = undo_rope(view(rows), input.trace->layer_model(s.layer));
  progress.check();
  auto figure = std::make_unique<Similarity>(rows, s, std::move(of));
  if (input.choice("beside") == "attention") {
    figure->attention = attention_beside(*input.trace, s, progress);
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "similarity", "Similarity map",
      "cos(k_i, k_j) of a head's keys (KeyDiff, figure 2; KVMerger, figure 2). A pixel that covers "
      "several tokens is the exact mean over its tile",
      Topic::keys, compute);
  info.zoom = Zoom::linked;
  info.limits = true;
  info.needs = {.head = true, .tokens = true};
  info.choices = {
      word_choice("of", "Of", "Keys, or values, which are less similar to their neighbours",
                  {"keys", "values"}),
      word_choice("rope", "RoPE",
                  "Keys after the rotary embedding, as the cache holds them, or before it",
                  {"after", "before"}),
      word_choice("beside", "Beside",
                  "Also the attention between the same tokens, as in KeyDiff's figure 2, and the "
                  "rank correlation of a key's mean cosine and the attention it receives",
                  {"nothing", "attention"})};
  return info;
}

}  // namespace kvloupe::figure::similarity_figure
