// How long the prompts are, and what share of them a budget retains.

#include "analysis/replay/typed_values.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::retained_share_figure {

namespace {

constexpr int bins = 24;

LinePanels::Panel lengths_panel(const std::vector<int>& lengths) {
  LinePanels::Panel panel{.title = "Prompt lengths"};
  const double most = 1.05 * *std::max_element(lengths.begin(), lengths.end());
  // The share of prompts that are at most so long: every prompt is one step, however few there are.
  LinePanels::Line line{.id = "share of prompts at most this long"};
  line.points.push_back({0.0, 0.0});
  std::vector<int> sorted = lengths;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double x = sorted[i];
    line.points.push_back({x, 100.0 * static_cast<double>(i) / static_cast<double>(sorted.size())});
    line.points.push_back(
        {x, 100.0 * static_cast<double>(i + 1) / static_cast<double>(sorted.size())});
  }
  line.points.push_back({most, 100.0});
  panel.lines.push_back(std::move(line));
  panel.x = x_axis("Length (tokens)", {0.0, most});
  panel.y = y_axis("Prompts of at most this length (%)", {0.0, 100.0});
  return panel;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const std::vector<Budget> budgets = chosen_budgets(input);
  std::vector<int> lengths, most;  // and the most entries a cache can hold of each prompt
  for (const auto& trace : input.traces) {
    const int length = trace->run().prompt_length;
    lengths.push_back(length);
    // If layers see differently, they hold different numbers; one that sees everything holds most.
    const Reach reach = trace->same_reach() ? trace->reach(trace->storing_layers().front()) : 0;
    most.push_back(std::max(1, length - first_seen(length, reach)));
  }
  LinePanels::Panel panel{.title = "Retained"};
  LinePanels::Line mean;
  mean.name = input.traces.size() > 1 ? "mean" : "";
  mean.id = "mean";
  mean.marked = true;
  ValueRange range;
  std::vector<LinePanels::Line> each(input.traces.size());
  for (const Budget& budget : budgets) {
    double sum = 0.0;
    for (std::size_t t = 0; t < input.traces.size(); ++t) {
      const double entries = budget_entries(budget, *input.traces[t]);
      const double share = 100.0 * std::min(1.0, entries / most[t]);
      each[t].points.push_back({entries, share});
      sum += share;
      range.add(entries);
    }
    mean.points.push_back({static_cast<double>(budget_entries(budget, *input.trace)),
                           sum / static_cast<double>(lengths.size())});
  }
  for (std::size_t t = 0; input.traces.size() > 1 && t < each.size(); ++t) {
    each[t].id = input.traces[t]->path().stem().string();
    each[t].thin = true;
    each[t].look = -1;
    panel.lines.push_back(std::move(each[t]));
  }
  panel.lines.push_back(std::move(mean));
  panel.x = x_axis("Budget N (entries)", range.padded_log(), AxisScale::log);
  panel.y = y_axis("Retained share (%)", {0.0, 100.0});
  panel.y_grid = true;
  auto figure = line_panels("tokens", "percent", {lengths_panel(lengths), std::move(panel)});
  figure->caption_text = fmt::format(
      "a, {}; b, share of a prompt that a budget retains, min(1, N/length){}{}.",
      input.traces.size() == 1 ? "length of the prompt"
                               : fmt::format("lengths of the {} prompts", input.traces.size()),
      most == lengths ? "" : ", of the tokens in the model's window",
      input.traces.size() > 1 ? ": each prompt (thin) and the mean" : "");
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "retained-share", "Retained share of prompts",
      "How long the prompts are and which share of them a budget in entries retains (KeyDiff, "
      "figure 10, tables 5 and 6): min(1, N/length). Several traces are several prompts",
      Topic::comparisons, compute, kTwoColumns);
  info.needs = {.comparison = true, .most_traces = 1000};
  info.choices = {budgets_choice("16,32,64,128,256,512,1024")};
  info.shows = [](std::string_view setting, const Choices&) {  // no policy is at work
    return setting != "budget" && setting != "block";
  };
  return info;
}

}  // namespace kvloupe::figure::retained_share_figure
