#include "app/window/state/report_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/study/head_advice.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/report/report.h"
#include "app/window/state/panel_context.h"

namespace kvloupe::window {

namespace {

/// The request of the first visible tile with the view `certificate`.
AdviceRequest asked_in_view(const WorkspaceState& state) {
  AdviceRequest request;
  const auto shown = std::find_if(state.tiles.begin(), state.tiles.begin() + state.tile_count,
                                  [](const TileState& tile) { return tile.view == "certificate"; });
  if (shown == state.tiles.begin() + state.tile_count) return request;
  const figure::FigureInfo& info = figure::find_figure(shown->view);
  const auto chosen = [&](const char* name) { return figure::choice(info, shown->choices, name); };
  const auto number = [&](const char* name) { return figure::parse_numbers(chosen(name)).at(0); };
  if (chosen("measure") != "first") request.measure = chosen("measure");
  if (chosen("block") != "first") request.block = chosen("block");
  request.at_most = number("at-most");
  request.risk = number("risk") / 100.0;
  request.largest = number("largest");
  request.over_full = chosen("beside") == "full";
  return request;
}

}  // namespace

void ReportJob::start(const PanelContext& c, const std::string& path) {
  report::check_report_name(path);
  const EvaluationPointer study = c.results.evaluation(Evaluation::Task::study);
  if (!study) throw UsageError("Open the results of a study first.");
  const std::string results = study->path.string();
  refuse_own_input(path, {results});
  report::ReportRequest request{asked_in_view(c.state), {path}};
  const figure::TextMetrics* fonts = &c.metrics;
  written_.start(c.results.comparing(), [=](Progress& progress) {
    write_whole_file(
        path, report::report_file(report::make_report(results, request, progress), path, *fonts));
    return "Written: " + path;
  });
}

void ReportJob::start_table(const PanelContext& c, const std::string& path) {
  head_table_text({}, path);  // the ending, before the work
  const EvaluationPointer study = c.results.evaluation(Evaluation::Task::study);
  if (!study) throw UsageError("Open the results of a study first.");
  const std::string results = study->path.string();
  refuse_own_input(path, {results});
  HeadRequest request;
  request.budget = c.state.budget.text();
  const std::string own = c.state.policy_a.text();
  written_.start(c.results.comparing(), [=](Progress&) mutable {
    require_one_model(results);
    const StudyTable table = read_study_table(results);
    const bool known =
        std::any_of(table.items.begin(), table.items.end(), [&](const StudyResults::Item& item) {
          return item.policy == own && item.task == kReplayTask;
        });
    if (known) request.policy = own;
    const HeadAdvice advice = advise_heads(table, request);
    write_whole_file(path, head_table_text(advice, path));
    return path.ends_with(".json")
               ? "Written: " + path
               : fmt::format("Written: {}. Use it with {}", path, head_table_spec(advice, path));
  });
}

}  // namespace kvloupe::window
