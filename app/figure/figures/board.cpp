// board: each policy's score on each task and their mean, by what it removes.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/study/paper_table.h"
#include "app/figure/figures/figures.h"
#include "app/figure/figures/of_study.h"

namespace kvloupe::figure::board_figure {

namespace {
std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const std::string block = input.choice("block");
  const FilledTable table = fill_paper_table(kvloupe::board(), {input.evaluation->study->path},
                                             {block == "first" ? "" : block, {}});
  if (table.rows.empty() || table.rows.front().cells.empty())
    throw WorkError("figure board: the study has no values yet; let it go on first");
  std::vector<std::string> policies;  // without the full cache
  bool shares = true;
  for (const FilledTable::Row& row : table.rows) {
    const TableCell& cell = row.cells.front();
    if (cell.policy == kFullCache) continue;
    shares = shares && percent_of(cell.budget);
    if (std::count(policies.begin(), policies.end(), cell.policy) == 0)
      policies.push_back(cell.policy);
  }
  auto figure = std::make_unique<LinePanels>();
  figure->add_row({"task", "policy", "budget", shares ? "removed" : "entries", "score", "low_95",
                   "high_95", "prompts", "best", "ties"});
  for (std::size_t c = 0; c < table.rows.front().cells.size(); ++c) {
    progress.check();
    LinePanels::Panel panel{.title = table.columns[c + 1].name, .y_grid = true};
    ValueRange x, y;
    std::map<std::string, std::vector<Point>> points;
    for (const FilledTable::Row& row : table.rows) {
      const TableCell& cell = row.cells[c];
      if (!cell.value) continue;
      y.add(cell.value->mean);
      if (cell.policy == kFullCache) {
        panel.levels = {{cell.value->mean, "full cache"}};
        continue;
      }
      if (!shares && percent_of(cell.budget)) continue;  // has no place among counts
      const double at = shares ? 1.0 - *percent_of(cell.budget) / 100.0
                               : std::strtod(cell.budget.c_str(), nullptr);
      x.add(at);
      points[cell.policy].push_back({at, cell.value->mean});
      figure->add_row({panel.title, cell.policy, cell.budget, at, cell.value->mean, cell.value->low,
                       cell.value->high, cell.prompts, cell.best, cell.ties});
    }
    for (std::size_t p = 0; p < policies.size(); ++p) {
      std::vector<Point> own = points[policies[p]];
      std::sort(own.begin(), own.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
      panel.lines.push_back({.name = policies[p], .points = own, .look = static_cast<int>(p)});
    }
    mark_chance(panel, policies);
    for (LinePanels::Line& line : panel.lines) line.marked = !line.chance;
    panel.x = shares ? x_axis("Removed (share of the prompt)", within(x.padded(), kShare))
                     : x_axis("Budget N (entries)", x.padded_log(), AxisScale::log);
    const bool percent = table.rows.front().cells[c].decimals >= 0;
    if (percent) {  // one scale for all tasks
      y.add(kPercent.least);
      y.add(kPercent.most);
    }
    panel.y = y_axis(percent ? "Score (%)" : "Score",
                     percent ? within(y.padded(), kPercent) : y.padded());
    figure->panels.push_back(std::move(panel));
  }
  figure->legend = true;
  figure->caption_text =
      "Each policy’s score by task and by what it removes. The table has the intervals. " +
      table.notes[0] + " " + table.notes[2] + " " + table.notes[3];
  return figure;
}
}  // namespace

FigureInfo entry() {
  FigureInfo info = study_figure(
      "board", "Board: tasks by policy",
      "Every policy's score on each task of a study and their mean, against the share of the "
      "prompt that leaves the cache: what kvloupe study board writes as a table",
      compute, kTwoColumns, 0.6);
  info.choices = {study_block_choice()};
  return info;
}

}  // namespace kvloupe::figure::board_figure
