#include "app/window/sheets/study_panel.h"

#include <imgui_stdlib.h>

#include "analysis/policy/published.h"
#include "analysis/trace/model_files.h"
#include "app/window/state/jobs.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {
// Texts as long as the usual ones above the buttons: their size is the room that is kept.
constexpr const char* kLongSize =
    "100 traces × 10 policies × 10 budgets. Results that are there already are kept.";
constexpr const char* kLongRun = "keydiff at 50%, document.h5: loss 0.0123";

/// The usual policies as their authors ran them, behind those in hand that are not among them.
std::string usual_policies(const WorkspaceState& state) {
  std::string policies;
  const auto add = [&](const std::string& policy) {
    if ((", " + policies + ",").find(", " + policy + ",") == std::string::npos)
      policies += (policies.empty() ? "" : ", ") + policy;
  };
  add(state.policy_a.text());
  if (state.policy_b_on) add(state.policy_b.text());
  for (const char* part : {"keydiff", "snapkv", "h2o", "tova", "sink"}) add(published_spec(part));
  return policies;
}
}  // namespace

void StudyPanel::propose(std::string job::StudyOptions::*field, const std::string& value) {
  if (options.*field == proposed_.*field) options.*field = value;
  proposed_.*field = value;
}

void StudyPanel::open_new(const PanelContext& c, const std::string& last_model) {
  open_ = appeared_ = true;
  if (running()) return;
  problem_.clear();
  stopped_.clear();
  const TracePointer trace = c.results.trace();
  propose(&job::StudyOptions::results, proposed_place(c.state.trace, cache_, "study.sqlite"));
  propose(&job::StudyOptions::budgets, "10%, 25%, 50%");
  propose(&job::StudyOptions::policies, usual_policies(c.state));
  propose(&job::StudyOptions::block, trace ? std::to_string(trace->run().block_size) : "128");
  if (!trace) {
    propose(&job::StudyOptions::model, last_model.empty() ? demo_model_folder() : last_model);
    return;
  }
  const std::string path = trace->path().string();
  find_alike(path);
  search_model(path, last_model);
}

/// Looks for the traces that a study of this one can take.
void StudyPanel::find_alike(const std::string& trace) {
  alike_.request(
      size_queue_, fmt::format("{}#{}", trace, ++searches_),
      [trace](Progress& progress, const auto&) { return job::traces_alike(trace, progress); });
}

void StudyPanel::follow_search() {
  if (const auto alike = alike_.current(); alike && alike_taken_ != alike_.key()) {
    alike_taken_ = alike_.key();
    propose(&job::StudyOptions::traces, *alike);
  }
  if (const auto found = take_found()) {
    // Not the demo model: prompts of another model would be answered by it without a word.
    propose(&job::StudyOptions::model, found->folder);
  }
  if (const auto made = fingerprint_.current(); made && !run_model_.empty())
    models_.add(*made, std::exchange(run_model_, {}));
}

void StudyPanel::start() {
  stopped_.clear();
  if (options.in_model) {
    run_model_ = options.model;
    fingerprint_.request(model_queue_, fmt::format("{}#{}", run_model_, ++searches_),
                         [folder = run_model_](Progress& progress, const auto&) {
                           return model_fingerprint(folder, progress);
                         });
  }
  start_run(options.results, [options = options](Progress& progress, const auto& publish) {
    return job::run_study_program(options, progress, publish);
  });
}

void StudyPanel::cancel() {
  if (const auto state = run_.current(); state && state->items > 0) {
    stopped_ = fmt::format("Stopped: {} of {} are done and kept. Run goes on with the others.",
                           count_text(state->done), count_text(state->items));
  }
  run_.clear();
}

void StudyPanel::follow(const PanelContext& c) {
  const auto state = take_end(c, "Study");
  if (!state) return;
  c.ask(OpenFile{options.results});
  c.tell(fmt::format("{}: {} items done", options.results, count_text(state->done)));
}

/// Counts the matches of the patterns, once the fields have not changed for a moment.
void StudyPanel::measure() {
  if (running()) return;
  if (!study_problem(options).empty()) return size_.clear();
  size_.request(
      size_queue_,
      fmt::format("{}{}\n{}\n{}\n{}\n{}\n{}", options.replays, options.in_model, options.traces,
                  options.prompts, options.policies, options.budgets, options.block),
      [options = options](Progress&, const auto&) { return job::study_size(options); },
      std::chrono::milliseconds(400));
}

std::string StudyPanel::time_left() const {
  const auto state = run_.current();
  if (!state || state->done <= state->done_before) return {};
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - state->began;
  const double each = passed.count() / (state->done - state->done_before);
  const double left = each * (state->items - state->done - state->failed);
  return left < 90 ? fmt::format(" · about {:.0f} s left", left)
                   : fmt::format(" · about {:.0f} min left", left / 60);
}

void StudyPanel::draw_form(const PanelContext& c) {
  const float browse = c.px(80);
  const auto place = [&](const char* name, const char* hint, std::string& text,
                         FilePanel::Purpose purpose, const char* help = "") {
    ImGui::PushID(name);
    form_field(c, name, browse);
    ImGui::InputTextWithHint("##place", hint, &text);
    help_tooltip(c.fonts, help);
    ImGui::SameLine();
    if (ImGui::Button("Browse…", {browse, 0})) files_.open(purpose, text);
    ImGui::PopID();
  };
  form_field(c, "measure");
  checkbox("replays of traces", options.replays, c.colours());
  help_tooltip(
      c.fonts,
      "Each policy is replayed on each trace: how far it moves the model's output, by head. "
      "Seconds for each");
  ImGui::SameLine();
  checkbox("answers of the model", options.in_model, c.colours());
  help_tooltip(c.fonts,
               "The model answers each prompt with each policy in its cache, in at most 16 tokens: "
               "whether the answer is right. Slower, and closer to what matters");
  if (options.replays) {
    place("traces",
          search_.computing() || alike_.computing() ? "looking for traces like the open one …"
                                                    : "files, or a pattern such as traces/*.h5",
          options.traces, FilePanel::Purpose::open_trace);
  }
  if (options.in_model) {
    place("model",
          search_.computing() ? "looking for the model that made the open trace …"
                              : "GGUF file, or folder with config.json",
          options.model, FilePanel::Purpose::open_model);
    place("prompts", "JSON lines: input, and outputs that are right; or a folder of texts",
          options.prompts, FilePanel::Purpose::open_prompts,
          "In each text of a folder a line @@needle, @@question or @@answer starts that part; each "
          "line of the answer is right. A line of JSON may have several questions about one "
          "context (docs/studies.md)");
    ImGui::SetCursorPosX(c.px(kFormNames));
    checkbox("as messages of a chat", options.chat, c.colours());
    help_tooltip(c.fonts, kChatHelp);
    form_field(c, "compress");
    checkbox("the context alone", options.context_only, c.colours());
    help_tooltip(c.fonts,
                 "The policy stops before the question, so that no policy knows it (context-only). "
                 "Else it acts on the whole prompt, of several questions with the first one");
  }
  form_field(c, "policies");
  ImGui::PushFont(c.fonts.mono);
  ImGui::InputText("##policies", &options.policies);
  ImGui::PopFont();
  help_tooltip(c.fonts, "Separated by commas");
  form_field(c, "budgets");
  ImGui::InputText("##budgets", &options.budgets);
  help_tooltip(c.fonts, "Shares of the prompt, or entries, separated by commas");
  form_field(c, "blocks");
  ImGui::SetNextItemWidth(c.px(128));
  ImGui::InputText("##block", &options.block);
  help_tooltip(
      c.fonts,
      "Prompt tokens between two evictions, one or several sizes separated by commas; all: "
      "one eviction after the prompt; capture: as each trace was captured");
  form_field(c, "results");
  ImGui::InputText("##results", &options.results);
  help_tooltip(c.fonts,
               "Holds every value. The study file stands beside it, with the ending .json, "
               "and runs on other machines too (docs/studies.md)");
}

void StudyPanel::draw_run(const PanelContext& c) {
  const auto state = run_.current();
  const bool known = state && state->items > 0;
  const std::string line =
      !known ? std::string("Reading traces and prompts …")
             : fmt::format("{} of {} done{}{}", count_text(state->done), count_text(state->items),
                           state->failed > 0 ? fmt::format(", {} failed", state->failed) : "",
                           time_left());
  draw_progress(c, line);
  wrapped_text(c.colours().secondary, known && !state->line.empty() ? state->line : " ");
}

void StudyPanel::draw_buttons(const PanelContext& c) {
  ImGui::SetCursorPosX(c.px(kFormNames));
  std::error_code error;
  const bool results = fs::is_regular_file(options.results, error);
  if (running()) {
    if (stop_button(c, "Stop", "What is done stays in the results file; Run goes on from there",
                    "the results open when they are ready"))
      cancel();
  } else if (start_button(c, "Run", 96, study_problem(options).empty())) {
    start();
  }
  ImGui::SameLine();
  ImGui::BeginDisabled(!results);
  if (ImGui::Button("Read the results", {c.px(128), 0})) {
    open_ = false;
    c.ask(OpenFile{options.results});
  }
  ImGui::EndDisabled();
  help_tooltip(c.fonts, results ? "Those that are there so far" : "There are none yet");
}

void StudyPanel::draw(const PanelContext& c) {
  follow(c);
  follow_search();
  if (std::string chosen; choose_file(c, chosen)) {
    if (files_.purpose() == FilePanel::Purpose::open_trace) {  // a study is of many: all alike
      options.traces = proposed_.traces;
      find_alike(chosen);
    } else {
      const bool model = files_.purpose() == FilePanel::Purpose::open_model;
      (model ? options.model : options.prompts) = chosen;
    }
  }
  if (!open_ || files_.is_open()) return;
  measure();
  begin_sheet(c, "##study", "New study", height_, appeared_);
  appeared_ = false;
  ImGui::BeginDisabled(running());
  draw_form(c);
  ImGui::EndDisabled();
  const float notes = begin_notes({kLongSize, kLongRun});
  if (running()) {
    draw_run(c);
  } else {
    const std::string wrong = !problem_.empty() ? problem_ : study_problem(options);
    const auto size = size_.current();
    wrapped_text(!problem_.empty() ? c.colours().error : c.colours().secondary,
                 !wrong.empty()      ? wrong
                 : !stopped_.empty() ? stopped_
                 : size              ? *size + ". Results that are there already are kept."
                                     : "Counting …");
  }
  end_notes(notes);
  draw_buttons(c);
  height_ = end_sheet();
}

}  // namespace kvloupe::window
