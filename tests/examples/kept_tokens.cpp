// kept-tokens: a figure of one file. In how many heads each token is still retained after the step.

#include <fmt/format.h>

#include "app/figure/figures/line_panels.h"
#include "tests/examples/examples.h"

namespace kvloupe::examples {

namespace {

using namespace kvloupe::figure;

/// Slow, in the background: numbers only.
std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Replay& replay = *input.policy_a;
  const int step = input.selection.step;
  std::vector<double> heads(static_cast<std::size_t>(input.trace->length()));
  for (const HeadReplay& head : replay.heads) {
    progress.check();
    for (const std::int32_t token : replay.retained_at(head, step))
      heads[static_cast<std::size_t>(token)] += 1.0;
  }
  LinePanels::Line line;
  for (std::size_t token = 0; token < heads.size(); ++token)
    line.points.push_back(
        {static_cast<double>(token), heads[token] / static_cast<double>(replay.heads.size())});
  LinePanels::Panel panel;
  panel.x = x_axis("Token", {0.0, static_cast<double>(heads.size())});
  panel.y = y_axis("Share of heads that retain it", {0.0, 1.0});
  panel.lines = {std::move(line)};
  auto figure = std::make_unique<LinePanels>();
  figure->panels = {std::move(panel)};
  figure->x_measure = "token";
  figure->y_measure = "share_of_heads";
  figure->caption_text =
      fmt::format("Share of the {} heads that retain each token after step {}, policy {}.",
                  replay.heads.size(), step, replay.policy);
  return figure;
}

}  // namespace

FigureInfo kept_tokens() {
  FigureInfo info;
  info.name = "kept-tokens";
  info.title = "Tokens kept by heads";
  info.tooltip = "In how many heads each token is still retained after the step";
  info.topic = Topic::kept;
  info.needs.step = info.needs.policy = info.needs.all_layers = true;
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::examples
