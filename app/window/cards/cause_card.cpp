#include "app/window/cards/cause_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/text.h"
#include "analysis/evaluation/evaluation.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/typed_values.h"
#include "analysis/study/study_results.h"
#include "analysis/study/study_table.h"
#include "analysis/study/study_traces.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/segments.h"
#include "analysis/trace/trace_size.h"
#include "app/demo/demo_trace.h"
#include "app/figure/figures/overview_measures.h"
#include "app/plot/printable.h"
#include "app/window/cards/card.h"
#include "app/window/state/known_models.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"
#include "app/window/widgets/shaped_text.h"

namespace kvloupe::window {

namespace {
namespace fs = std::filesystem;

constexpr float kWidth = 456;
constexpr std::size_t kLongestAnswer = 60;  // bytes shown of one

std::string quoted(const std::string& text) {
  std::string shown = figure::printable(text);
  if (shown.size() > kLongestAnswer) {
    std::size_t end = kLongestAnswer;
    while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0U) == 0x80U) --end;
    shown = shown.substr(0, end) + "…";
  }
  return "“" + shown + "”";
}

/// The folder of the model that was evaluated. Throws WorkError where none is known.
std::string model_folder(const Evaluation& evaluation, const KnownModels& known,
                         Progress& progress) {
  // First where the study itself found the model.
  const std::string own =
      evaluation.study ? find_study_model(*evaluation.study).string() : std::string();
  std::vector<std::string> offered = offered_models(known, evaluation.fingerprint, {});
  if (!own.empty()) offered.insert(offered.begin(), own);
  for (const std::string& folder : offered) {
    progress.check();
    const bool same = evaluation.fingerprint.empty()
                          ? fs::path(folder).filename() == evaluation.model
                          : model_fingerprint(folder, progress) == evaluation.fingerprint;
    if (same) return folder;
  }
  throw WorkError("the folder of model " + evaluation.model +
                  " is not known: capture a trace with that model once (Ctrl N), then click again");
}

/// What EvalCaseOptions::prompt holds: the same text for all policies of a prompt.
std::string case_prompt(const Evaluation& evaluation, int row) {
  const EvaluationRun& run = evaluation.runs[static_cast<std::size_t>(row)];
  std::string prompt, dtype = evaluation.dtype, block = std::to_string(evaluation.block);
  bool reads_again = !run.probe.empty();
  if (evaluation.study) {
    StudyResults results(evaluation.path);
    const auto& item = evaluation.study->items[static_cast<std::size_t>(row)];
    prompt = results.prompt(item.number).stored;
    dtype = results.setting("dtype");
    block = item.block_word + " " + std::to_string(item.block);
    reads_again =
        run.policy != kFullCache && has_trait(parse_policy(run.policy), &PolicyTraits::reads_probe);
  } else if (run.prompt >= 0 && run.prompt < static_cast<int>(evaluation.prompts.size())) {
    prompt = evaluation.prompts[static_cast<std::size_t>(run.prompt)];
  } else {  // of an earlier version: made again from the row
    prompt = fmt::format("{}: {} tokens, depth {}, sample {}", evaluation.path.string(), run.length,
                         run.depth, run.sample);
  }
  return fmt::format("{}\n{}\n{}\n{}\n{}",
                     evaluation.fingerprint.empty() ? evaluation.model : evaluation.fingerprint,
                     dtype, block, reads_again ? "read again" : "read once", prompt);
}

/// The text generated after the prompt.
std::string answer_of(const Trace& trace) {
  std::string text;
  for (int token = trace.run().prompt_length; token < trace.length(); ++token) {
    const auto at = static_cast<std::size_t>(token);
    if (at < trace.tokens().text.size()) text += trace.tokens().text[at];
  }
  return text;
}
}  // namespace

CauseCard::CauseCard(const KnownModels& models, fs::path cache, std::string program,
                     std::function<void()> wake)
    : models_(models),
      cache_(std::move(cache)),
      program_(std::move(program)),
      queue_(1, wake),
      forecast_queue_(1, wake) {}

void CauseCard::open(const EvaluationPointer& evaluation, int run, ImVec2 at) {
  close();
  evaluation_ = evaluation;
  if (!evaluation_ || run < 0 || run >= static_cast<int>(evaluation_->runs.size())) return;
  first_ = run;
  at_ = at;
  open_ = true;
}

void CauseCard::close() {
  open_ = false;
  chosen_ = -1;
  case_.clear();
  rescue_.clear();
  finding_.clear();
  forecast_.clear();
}

bool CauseCard::busy() const {
  if (!open_ || chosen_ < 0) return false;
  if (case_.computing() || rescue_.computing() || finding_.computing()) return true;
  // Else the action waits until the case's trace is shown again.
  return (case_.current() && !shown_) || (is_found() && !rescue_shown_ && !elsewhere_);
}

bool CauseCard::is_found() const { return rescue_.current() && rescue_.current()->done; }

bool CauseCard::context_only(int run) const {
  if (evaluation_->task != Evaluation::Task::study) return evaluation_->context_only;
  return evaluation_->study->items[static_cast<std::size_t>(run)].compression ==
         compression_name(Compression::context_only);
}

job::EvalCaseOptions CauseCard::options_of(int run) const {
  const EvaluationRun& one = evaluation_->runs[static_cast<std::size_t>(run)];
  job::EvalCaseOptions options;
  options.results = evaluation_->path;
  options.results_identity = evaluation_->identity;
  options.row = run;
  options.policy = one.policy;
  options.budget = one.budget;
  options.compact = evaluation_->compact;
  options.context_only = context_only(run);
  options.program = program_;
  return options;
}

void CauseCard::choose(int run) {
  chosen_ = run;
  shown_ = rescue_shown_ = pointed_ = false;
  rescue_.clear();
  finding_.clear();
  const job::EvalCaseOptions options = options_of(run);
  case_.clear();
  case_.request(queue_, options,
                [options, evaluation = evaluation_, known = models_, cache = cache_](
                    Progress& progress, const auto&) {
                  job::EvalCaseOptions all = options;
                  all.folder = demo::traces_folder(cache) / "cases";
                  all.model = model_folder(*evaluation, known, progress);
                  all.prompt = case_prompt(*evaluation, all.row);
                  const job::EvalCaseTraces traces = job::capture_eval_case(all, progress);
                  Case found;
                  found.model = all.model;
                  found.full = std::make_shared<const Trace>(traces.full);
                  if (!traces.closed.empty())
                    found.closed = std::make_shared<const Trace>(traces.closed);
                  found.follows = !segment_range(found.full->tokens(), "needle").empty();
                  return found;
                });
}

/// All runs of a cell have prompts of about one length: the first one speaks for them.
void CauseCard::draw_forecast(const PanelContext& c) {
  if (!has_prompt(evaluation_->runs[static_cast<std::size_t>(first_)])) return;
  const job::EvalCaseOptions options = options_of(first_);
  forecast_.request(forecast_queue_, options,
                    [options, evaluation = evaluation_, known = models_, cache = cache_](
                        Progress& progress, const auto&) {
                      job::EvalCaseOptions all = options;
                      all.folder = demo::traces_folder(cache) / "cases";
                      all.model = model_folder(*evaluation, known, progress);
                      all.prompt = case_prompt(*evaluation, all.row);
                      return job::foresee_eval_case(all, progress);
                    });
  const auto known = forecast_.current();
  if (!known) return;  // what is wrong is said when the run is asked for
  const CaptureForecast& each = known->each;
  if (known->traces == 0) {
    wrapped_text(c.colours().secondary, "The traces of the first of them are in the cache folder.");
    return;
  }
  // What runs of this length took when they were evaluated says more than the last capture.
  const EvaluationRun& run = evaluation_->runs[static_cast<std::size_t>(first_)];
  double seconds = each.seconds.value_or(0.0), measured = 0.0;
  for (const EvaluationRun& other : evaluation_->runs) {
    if (other.tokens == run.tokens && other.seconds > measured) measured = other.seconds;
  }
  if (measured > 0.0) seconds = measured;
  const std::string time = seconds > 0.0
                               ? duration_text(known->traces * seconds) +
                                     (measured > 0.0 ? ", as long as these runs took before" : "")
                               : "a time that is known after the first run of this model here";
  wrapped_text(c.colours().secondary,
               fmt::format("“Why?” makes {} in the cache folder: {} ({}), {}",
                           known->traces == 2 ? "two traces" : "a trace",
                           bytes_text(static_cast<std::uint64_t>(known->traces) * each.bytes),
                           precision_text(each.dtype, each.store), time));
}

/// The window as it looks at this run: its policy, and what became of its needle in every head.
void CauseCard::show(const PanelContext& c, const Case& found) {
  const EvaluationRun& run = evaluation_->runs[static_cast<std::size_t>(chosen_)];
  if (found.closed) c.results.keep(found.closed);
  WorkspaceState& state = c.state;
  if (run.policy != kFullCache) {
    try {
      state.policy_a = parse_policy(run.policy);
      state.budget = parse_entries_budget(run.budget);
    } catch (const UsageError& problem) {  // of another version, or a plugin's
      return c.fail(problem.what());
    }
  }
  state.policy_b_on = false;
  state.block = 0;
  state.compression.reset();
  if (context_only(chosen_)) state.compression = Compression::context_only;
  if (found.follows) {
    state.followed = "needle";
    state.grid_measure = figure::kFollowedMeasure;
    state.token_colour = "heads";
  }
  const int beside = state.active_tile == 0 ? 1 : 0;
  state.tiles.resize(std::max<std::size_t>(state.tiles.size(), 2));
  state.tiles[static_cast<std::size_t>(beside)] = TileState{.view = "follow"};
  state.tile_count = std::max(state.tile_count, 2);
  c.ask(ShowTrace{found.full});
}

void CauseCard::draw_runs(const PanelContext& c) {
  const Evaluation& evaluation = *evaluation_;
  const EvaluationRun& cell = evaluation.runs[static_cast<std::size_t>(first_)];
  int row = 0;
  for (std::size_t i = 0; i < evaluation.runs.size(); ++i) {
    const EvaluationRun& run = evaluation.runs[i];
    const bool of_cell = evaluation.task == Evaluation::Task::study
                             ? static_cast<int>(i) == first_  // an item
                             : run.policy == cell.policy && run.budget == cell.budget &&
                                   run.length == cell.length && run.depth == cell.depth;
    if (!of_cell) continue;
    const bool found = !(run.correct < 0.5);  // a text without a question has nothing to miss
    ImGui::PushID(std::to_string(i).c_str());
    ImGui::AlignTextToFramePadding();
    ImGui::TextColored(
        ImGui::ColorConvertU32ToFloat4(found ? c.colours().secondary : c.colours().error), "%s",
        run.expected.empty() ? "text"
        : found              ? "found"
                             : "missed");
    ImGui::SameLine(c.px(64));
    text_before(c,
                run.expected.empty()
                    ? "no question was asked"
                    : fmt::format("{} · expected {}", quoted(run.answer), run.expected),
                figure::Font::regular, 13.0, c.px(kWidth - 96 - 64 - 8));
    if (evaluation.task == Evaluation::Task::study && !has_prompt(run)) {
      ImGui::PopID();
      ImGui::TextWrapped(
          "The study kept no prompt here: it is a replay, or was written by an earlier version.");
      break;
    }
    ImGui::SameLine(c.px(kWidth - 96));
    const bool this_one = chosen_ == static_cast<int>(i) && case_.error().empty();
    if (ImGui::SmallButton(this_one ? "Shown" : found ? "Open" : "Why?") && !this_one)
      choose(static_cast<int>(i));
    help_tooltip(c.fonts,
                 "Runs this prompt again with the full cache and with the policy, and follows the "
                 "needle through every head");
    ImGui::PopID();
    if (++row == 12) {
      ImGui::TextDisabled("and more; these are the first 12");
      break;
    }
  }
}

void CauseCard::draw_rescue(const PanelContext& c, const Case& found) {
  const EvaluationRun& run = evaluation_->runs[static_cast<std::size_t>(chosen_)];
  if (run.policy == kFullCache) return;
  if (run.expected.empty()) return;
  if (!found.follows) {
    ImGui::TextWrapped(
        "This prompt has no segment \"needle\": choose the tokens to follow in the film strip.");
    return;
  }
  if (context_only(chosen_)) {
    ImGui::TextDisabled(
        "A rescue needs a run that evicts to the end; this one stops at the question.");
    return;
  }
  job::RescueOptions options;
  options.model = found.model;
  options.results = evaluation_->path.string();
  options.row = chosen_;
  options.output = fmt::format("{}.{}-{}.rescue.json", found.full->path().string(),
                               file_word(run.policy), file_word(run.budget));
  options.program = program_;
  if (rescue_.computing()) {
    const auto so_far = rescue_.value();
    ImGui::AlignTextToFramePadding();
    const job::RescueProgress made = so_far ? so_far->made : job::RescueProgress{};
    ImGui::TextUnformatted(made.most > 0 ? fmt::format("Run {} of at most {}, {} left", made.runs,
                                                       made.most, duration_text(made.seconds_left))
                                               .c_str()
                                         : "Running the model with the full cache");
    ImGui::SameLine(c.px(kWidth - 96));
    if (ImGui::SmallButton("Stop")) rescue_.clear();
    help_tooltip(c.fonts, "Keeps the runs made so far; the search continues from there");
    return;
  }
  if (is_found() && !rescue_shown_) {
    rescue_shown_ = true;
    c.state.tiles.resize(std::max<std::size_t>(c.state.tiles.size(), 3));
    c.state.tile_count = std::max(c.state.tile_count, 3);
    c.state.active_tile = 2;
    c.ask(OpenFile{options.output});
    return;
  }
  const EvaluationPointer last = is_found() ? c.results.rescue() : nullptr;
  const bool stopped = last && last->path == options.output && last->rescue->stopped;
  if (is_found() && !stopped) return;
  if (stopped) {
    ImGui::TextWrapped(
        "So no set of heads was looked for. Only the heads named here were run alone.");
  }
  if (const std::string error = rescue_.error(); !error.empty()) {
    wrapped_text(c.colours().error, error);
  }
  if (const auto known = forecast_.current()) {
    wrapped_text(
        c.colours().secondary,
        fmt::format("A search runs the model many times{}, and says after the first runs how "
                    "long it still takes. Its results take a few kB, beside the case's trace.",
                    known->each.seconds ? ", " + duration_text(*known->each.seconds) + " each"
                                        : std::string()));
  }
  if (ImGui::Button(stopped ? "Run other heads alone, too" : "Search for a rescue", {-1, 0})) {
    options.all = stopped;
    rescue_shown_ = false;
    rescue_.clear();
    rescue_.request(queue_, options, [options](Progress& progress, const auto& publish) {
      job::run_rescue_program(options, progress, [&](const job::RescueProgress& made) {
        publish(Searched{made, false});
      });
      return Searched{{}, true};
    });
  }
  help_tooltip(
      c.fonts,
      stopped ? "Looks for heads whose loss breaks the full cache's answer, and for those where to "
                "keep the needle brings the right answer nearest"
              : "Runs the model with the needle kept in all heads, and in the heads named here. If "
                "the first restores the answer, looks for a small set of heads that does");
}

void CauseCard::draw_case(const PanelContext& c) {
  const auto found = case_.current();
  if (!found) {
    if (const std::string error = case_.error(); !error.empty()) {
      wrapped_text(c.colours().error, error);
      return;
    }
    ImGui::ProgressBar(static_cast<float>(case_.fraction()), {-c.px(72), c.px(4)}, "");
    ImGui::SameLine();
    if (ImGui::SmallButton("Cancel")) {
      case_.clear();
      chosen_ = -1;
    }
    return;
  }
  if (!shown_) {
    shown_ = true;
    show(c, *found);
    return;
  }
  ImGui::Separator();
  show_text(c.fonts, "Full cache: " + quoted(answer_of(*found->full)));
  const EvaluationRun& run = evaluation_->runs[static_cast<std::size_t>(chosen_)];
  if (found->closed) show_text(c.fonts, run.policy + ": " + quoted(run.answer));
  // Another trace may have been opened meanwhile.
  elsewhere_ = c.results.trace() != found->full;
  if (elsewhere_) {
    if (c.results.opening()) return;
    ImGui::TextDisabled("Another trace is open now.");
    ImGui::SameLine();
    if (ImGui::SmallButton("Come back")) shown_ = false;
    return;
  }
  if (found->follows) finding_.request(c, found->model);
  if (const auto finding = finding_.current()) {
    // The head that is blamed first is shown.
    if (!pointed_ && !finding->heads.empty()) {
      c.state.selection.layer = finding->heads.front().layer;
      c.state.selection.head = finding->heads.front().head;
    }
    pointed_ = true;
    for (const std::string& line : finding->sentences()) {
      ImGui::Dummy({0, c.px(2)});
      wrapped_text(line);
    }
  } else if (found->follows) {
    ImGui::TextDisabled("Following the needle…");
  }
  ImGui::Dummy({0, c.px(4)});
  draw_rescue(c, *found);
  if (const auto finding = finding_.current()) {
    if (ImGui::SmallButton("Copy finding")) copy_finding(c, *finding);
    help_tooltip(c.fonts, "These sentences and the command lines that repeat them");
  }
}

void CauseCard::draw(const PanelContext& c) {
  if (!open_) return;
  const EvaluationRun& cell = evaluation_->runs[static_cast<std::size_t>(first_)];
  const bool closed =
      begin_card(c, "cause", at_, kWidth, 360.0F,
                 cell.policy == kFullCache ? std::string("Full cache")
                                           : fmt::format("{} at {}", cell.policy, cell.budget));
  if (evaluation_->task == Evaluation::Task::study) {
    const auto& item = evaluation_->study->items[static_cast<std::size_t>(first_)];
    show_text(c.fonts, figure::printable(item.trace));
  } else {
    ImGui::TextDisabled("%s", fmt::format("{} · needle at {:g} % of the text",
                                          token_count_text(std::lround(cell.length)), cell.depth)
                                  .c_str());
  }
  ImGui::Dummy({0, c.px(4)});
  draw_runs(c);
  if (chosen_ < 0) draw_forecast(c);
  if (chosen_ >= 0) draw_case(c);
  end_card();
  if (closed) close();
}

}  // namespace kvloupe::window
