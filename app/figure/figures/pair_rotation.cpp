// Lemma 3.2 of KVMerger: what like keys say about their rotary pairs before RoPE.

#include "analysis/math/rope.h"

#include "app/figure/figures/figures.h"

namespace kvloupe::figure::pair_rotation_figure {

namespace {

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const double least = chosen_number(input, "least");
  const Matrix keys = input.trace->key(s.layer, s.head);
  auto figure = std::make_unique<LinePanels>();
  std::string counted;
  ValueRange cosines;
  cosines.add(0.0);
  for (const int distance : {1, 2, 3}) {
    progress.check();
    const auto pairs =
        pair_rotations(view(keys), input.trace->layer_model(s.layer), distance, least);
    LinePanels::Panel panel{.title = fmt::format("m − n = {}", distance)};
    LinePanels::Line predicted{.name = "cos((m − n)θ)", .look = -1};
    LinePanels::Line before{.name = "before RoPE", .marked = true};
    LinePanels::Line after{.name = "as cached", .look = 1, .marked = true};
    for (std::size_t j = 0; j < pairs.size(); ++j) {
      const auto x = static_cast<double>(j);
      predicted.points.push_back({x, pairs[j].predicted});
      before.points.push_back({x, pairs[j].before});
      after.points.push_back({x, pairs[j].after});
    }
    panel.lines = {std::move(predicted), std::move(before), std::move(after)};
    panel.levels.push_back({std::cos(static_cast<double>(distance)), "", true});
    panel.x = x_axis("Pair j", {-0.3, static_cast<double>(pairs.size()) - 0.7});
    for (const LinePanels::Line& line : panel.lines) {
      for (const Point& point : line.points) cosines.add(point.y);
    }
    cosines.add(std::cos(static_cast<double>(distance)));
    figure->panels.push_back(std::move(panel));
    counted += fmt::format("{}{}", counted.empty() ? "" : ", ",
                           format_count(pairs.empty() ? 0 : pairs.front().neighbours));
  }
  for (LinePanels::Panel& panel : figure->panels) {
    panel.y = y_axis("Mean cosine", within(cosines.padded(), {-1.05, 1.05}));  // marks at 1 whole
  }
  figure->columns = 3;
  figure->aspect = 1.1;
  figure->legend = true;
  figure->x_measure = "pair";
  figure->y_measure = "mean_cosine";
  figure->caption_text = fmt::format(
      "Mean cosine of the rotary pairs of neighbours m and n whose keys have a cosine of at least "
      "{}, layer {}, head {} ({} neighbours): rotated back to before RoPE, and as cached. If the "
      "keys were collinear, the first would be exactly cos((m − n)θ), with θ the pair’s angle per "
      "position; dashed: cos(m − n), the beginning of the interval that the paper states.",
      number_text(least), s.layer, s.head, counted);
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "pair-rotation", "Similar keys before RoPE",
      "KVMerger, lemma 3.2: if two keys are collinear after RoPE, their pairs before RoPE have the "
      "cosine cos((m − n)θ_j), for the pairing that the model uses. The paper's interval holds "
      "only for |m − n| ≤ 3, so these distances are shown",
      Topic::merging, compute, kTwoColumns);
  info.needs.head = true;
  info.choices = {number_choice("least", "Smallest cosine",
                                "Only neighbours whose whole keys have at least this cosine", "0.9",
                                -1.0, 1.0)};
  info.unavailable = without_rotation;
  return info;
}

}  // namespace kvloupe::figure::pair_rotation_figure
