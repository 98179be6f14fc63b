// Cosine of a token's key, and of its value, to those of the tokens before it.

#include "analysis/math/merging.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::local_similarity_figure {

namespace {

std::vector<Point> points_of(const std::vector<double>& cosines) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    points.push_back({static_cast<double>(i + 1), cosines[i]});
  }
  return points;
}

/// The mean over all tokens of every head of the layer; the selected head in front.
void add_heads(LinePanels::Panel& panel, const Trace& trace, const Selection& s, bool values,
               int most, Progress& progress) {
  for (int h = 0; h < trace.layer_model(s.layer).num_kv_heads; ++h) {
    progress.check();
    const Matrix rows = values ? trace.value(s.layer, h) : trace.key(s.layer, h);
    LinePanels::Line line{.points = points_of(mean_local_similarity(view(rows), most)),
                          .look = h == s.head ? 0 : -1,
                          .thin = h != s.head,
                          .id = fmt::format("head {}", h),
                          .target = {.layer = s.layer, .head = h}};
    if (h == s.head) line.name = line.id;
    panel.lines.push_back(std::move(line));
  }
}

/// Three tokens of the selected head, and the mean over all.
void add_tokens(LinePanels::Panel& panel, const Trace& trace, const Selection& s, bool values,
                int most) {
  const Matrix rows = values ? trace.value(s.layer, s.head) : trace.key(s.layer, s.head);
  LinePanels::Line mean{
      .name = "mean", .points = points_of(mean_local_similarity(view(rows), most)), .look = -1};
  for (int quarter = 1; quarter <= 3; ++quarter) {
    const int token = quarter * (trace.length() - 1) / 4;
    panel.lines.push_back(
        LinePanels::Line{.name = fmt::format("token {}", format_count(token)),
                         .points = points_of(local_similarity(view(rows), token, most)),
                         .look = quarter - 1});
  }
  panel.lines.push_back(std::move(mean));
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const bool heads = input.choice("lines") == "heads";
  const int most = std::min(static_cast<int>(chosen_number(input, "distance")),
                            std::max(1, input.trace->length() - 1));
  std::vector<LinePanels::Panel> panels;
  for (const bool values : {false, true}) {
    progress.check();
    LinePanels::Panel panel{.title = values ? "Values" : "Keys"};
    panel.levels.push_back({0.0, "", true});
    if (heads) {
      add_heads(panel, *input.trace, s, values, most, progress);
    } else {
      add_tokens(panel, *input.trace, s, values, most);
    }
    panels.push_back(std::move(panel));
  }
  ValueRange range;
  range.add(0.0);
  range.add(1.0);
  for (const LinePanels::Panel& panel : panels) {
    for (const LinePanels::Line& line : panel.lines) {
      for (const Point& point : line.points) range.add(point.y);
    }
  }
  for (LinePanels::Panel& panel : panels) {
    panel.x = x_axis("Distance (tokens)", {1.0, std::max(2.0, static_cast<double>(most))});
    panel.y = y_axis("Cosine similarity", {std::min(0.0, range.low - 0.03), 1.0});
  }
  auto figure = line_panels("distance", "cosine", std::move(panels));
  figure->legend = true;
  figure->caption_text =
      heads ? fmt::format(
                  "Cosine of a token's key (a) and value (b) to those of earlier tokens, mean over "
                  "all tokens, for every head of layer {}; head {} in blue.",
                  s.layer, s.head)
            : fmt::format(
                  "Cosine of three tokens' keys (a) and values (b) to those of earlier tokens, and "
                  "the mean over all tokens, layer {}, head {}.",
                  s.layer, s.head);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info{
      "local-similarity",
      "Local similarity",
      "cos(k_t, k_{t−n}) by distance n (KVMerger, figure 3a): keys are similar to those of "
      "neighbours, values are not",
      Topic::merging,
      compute,
      kTwoColumns};
  info.needs.head = true;
  info.choices = {
      word_choice(
          "lines", "Lines",
          "The mean over all tokens for every head, or single tokens of one head as in the paper",
          {"heads", "tokens"}),
      number_choice("distance", "Distance", "The largest distance, in tokens", "64", 1, 4096)};
  return info;
}

}  // namespace kvloupe::figure::local_similarity_figure
