#include "app/window/state/jobs.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/replay/follow_json.h"
#include "analysis/replay/typed_values.h"
#include "analysis/study/head_advice.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/job/assets.h"
#include "app/report/finding_page.h"
#include "app/report/report.h"
#include "app/trace_page/trace_page.h"
#include "app/window/state/panel_context.h"

namespace kvloupe::window {

void DemoJob::start(std::vector<demo::DemoRun> runs, const demo::DemoPlaces& places) {
  taken_ = false;
  outcome_.request(queue_, std::to_string(++starts_),
                   [runs = std::move(runs), places](Progress& progress, const auto&) {
                     constexpr long kParts = 1000;  // of one run
                     progress.set_total(kParts * static_cast<long>(runs.size()));
                     Outcome outcome;
                     for (const demo::DemoRun& run : runs) {
                       Progress part(progress, kParts);
                       outcome.traces.push_back(
                           std::make_shared<const Trace>(demo::demo_trace(run, part, places)));
                       part.finish();
                     }
                     if (!outcome.traces.empty()) {
                       const Trace& first = *outcome.traces.front();
                       Progress part;
                       outcome.rests_most =
                           strongest_sink(sink_strengths(first, 0, part), first.most_heads());
                     }
                     return outcome;
                   });
}

void DemoJob::cancel() {
  outcome_.clear();
  taken_ = true;
}

std::optional<DemoJob::Outcome> DemoJob::take() {
  if (taken_ || outcome_.computing()) return std::nullopt;
  taken_ = true;
  if (const auto outcome = outcome_.current()) return *outcome;
  Outcome failed;
  failed.error = outcome_.error();
  return failed;
}

std::string demo_model_folder() {
  try {
    return job::find_asset("demo-model").string();
  } catch (const FileError&) {  // an installation without it
    return {};
  }
}

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

void ReportJob::start_page(const PanelContext& c, const std::string& path) {
  const TracePointer trace = c.results.trace();
  if (!trace) throw UsageError("Open a trace first.");
  if (!path.ends_with(".html")) throw UsageError(path + ": must end in .html");
  refuse_own_input(path, {trace->path()});
  trace_page::PageRequest request{.policies = {c.state.policy_a},
                                  .budgets = parse_budgets(trace_page::kUsualBudgets),
                                  .block = c.state.block,
                                  .compression = c.state.compression,
                                  .output = path,
                                  .background = true};
  if (!(c.state.policy_b == c.state.policy_a)) request.policies.push_back(c.state.policy_b);
  const auto same = [&](const Budget& budget) { return budget.text() == c.state.budget.text(); };
  if (std::none_of(request.budgets.begin(), request.budgets.end(), same))
    request.budgets.push_back(c.state.budget);
  const auto entries = [&](const Budget& budget) {
    return budget_entries(budget, *trace, c.state.policy_a);
  };
  std::stable_sort(request.budgets.begin(), request.budgets.end(),
                   [&](const Budget& a, const Budget& b) { return entries(a) < entries(b); });
  plan_page(*trace, request);  // whatever it refuses, before the work
  const EvaluationPointer results = c.results.evaluation();
  written_.start(c.results.comparing(), [=](Progress& progress) mutable {
    request.results = results.get();
    write_whole_file(path, make_page(*trace, request, progress));
    return "Written: " + path;
  });
}

namespace {
/// What the state follows under policy A.
struct FollowedState {
  TracePointer trace;
  EvaluationPointer rescue;  // of these tokens, this policy and this budget; or null
  std::shared_ptr<figure::ReplayService> replays;
  PolicySpec policy;
  Budget budget;
  std::vector<int> tokens;
  int entries = 0, block = 0;
  std::optional<Compression> compression;
};

/// Throws UsageError for tokens that the trace lacks.
FollowedState followed_state(const PanelContext& c, const TracePointer& trace) {
  FollowedState now{trace,
                    c.results.rescue(),
                    c.results.replays(),
                    c.state.policy_a,
                    c.state.budget,
                    named_tokens(*trace, c.state.followed),
                    c.state.budget.resolve(trace->run().prompt_length),
                    c.state.block,
                    c.state.compression};
  if (now.rescue && (now.rescue->rescue->tokens != now.tokens ||
                     now.rescue->rescue->policy != now.policy.text() ||
                     now.rescue->rescue->budget != now.entries))
    now.rescue = nullptr;
  return now;
}

/// Follows it; `use` takes the source of the finding.
template <typename Use>
auto with_finding(const FollowedState& now, const std::string& model, Progress& progress,
                  const Use& use) {
  ReplayRequest wanted{.policy = now.policy,
                       .budget = now.entries,
                       .block = now.block,
                       .compression = now.compression,
                       .metrics = false,
                       .followed = now.tokens,
                       .background = true};
  const auto reads = now.replays->reads(*now.trace, now.tokens, true, progress);
  const auto replay = now.replays->get(*now.trace, wanted, progress);
  const AskOptions asking{.background = true, .states = &now.replays->states()};
  Progress part(progress, 0);
  const std::vector<FollowedHead> heads = follow(
      *replay, *reads, now.tokens, restored_heads(*now.trace, *replay, now.tokens, asking, part));
  const std::string text = now.policy.text(), budget = now.budget.text();
  return use(FindingSource{*now.trace, now.tokens, text, budget, now.entries, now.block,
                           now.compression, heads, restored_over(*now.trace, *replay),
                           now.rescue ? &*now.rescue->rescue : nullptr, model});
}
}  // namespace

void ReportJob::start_finding(const PanelContext& c, const std::string& path) {
  const TracePointer trace = c.results.trace();
  if (!trace) throw UsageError("Open a trace first.");
  if (!path.ends_with(".html")) throw UsageError(path + ": must end in .html");
  refuse_own_input(path, {trace->path()});
  const figure::TextMetrics* fonts = &c.metrics;
  written_.start(c.results.comparing(), [=, now = followed_state(c, trace)](Progress& progress) {
    const request::FigureMaker maker({.traces = {trace}},
                                     std::make_shared<request::FigureService>(now.replays));
    write_whole_file(path, with_finding(now, {}, progress, [&](const FindingSource& source) {
                       return figure::document::write_page(
                           report::finding_page(source, maker, *fonts, progress));
                     }));
    return "Written: " + path;
  });
}

void FindingJob::request(const PanelContext& c, const std::string& model) {
  const TracePointer trace = c.results.trace();
  if (!trace) return finding_.clear();
  FollowedState now;
  try {
    now = followed_state(c, trace);
  } catch (const UsageError&) {
    return finding_.clear();  // told where it is typed
  }
  const Key key{c.results.trace_key(),
                now.rescue ? now.rescue->path.string() + now.rescue->identity : "",
                model,
                now.policy,
                now.budget,
                now.tokens,
                now.block,
                now.compression};
  finding_.request(c.results.comparing(), key, [now, model](Progress& progress, const auto&) {
    return with_finding(now, model, progress,
                        [](const FindingSource& source) { return finding(source); });
  });
}

void copy_finding(const PanelContext& c, const Finding& finding) {
  ImGui::SetClipboardText(finding.text().c_str());
  c.tell("Copied the finding: three sentences, and the commands that repeat them");
}

}  // namespace kvloupe::window
