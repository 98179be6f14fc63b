#include "app/window/sheets/capture_panel.h"

#include <imgui_stdlib.h>

#include <algorithm>
#include <chrono>

#include "analysis/base/core/error.h"
#include "analysis/base/system/user_files.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/model_files.h"
#include "app/window/state/jobs.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

namespace {

// Texts as long as the usual ones above the buttons: their size is the room that is kept.
constexpr const char* kLongState =
    "The model that made the open trace. Writes the new trace, then opens it.";
constexpr const char* kLongForecast =
    "the trace will take about 147 MB: 115 MB states (1994 tokens, float16), 12.2 MB other; the "
    "weights of the model take 77 MB more, once, in the cache folder; computed in bf16, stored as "
    "float16; about 40 s, as fast as the last run of this model here";

/// Stays on the line if it has room for so many pixels, else goes to the next one. True if it
/// stays.
bool stay_on_line(float width, float gap) {
  ImGui::SameLine(0, gap);
  if (ImGui::GetContentRegionAvail().x >= width) return true;
  ImGui::NewLine();
  return false;
}

}  // namespace

void CapturePanel::open_new(const PanelContext& c) {
  open_ = appeared_ = true;
  options.shared_weights = false;  // it may be for another machine
  options.policy = kFullCache;
  if (options.prompt == CaptureOptions::Prompt::trace)
    options.prompt = CaptureOptions::Prompt::file;
  model_chosen_ = false;
  search_.clear();
  fingerprint_.clear();
  if (options.model.empty()) options.model = last_model_;
  options.output = proposed_place(c.state.trace, cache_, "capture.h5");
  if (const TracePointer trace = c.results.trace()) {
    trace_ = trace->path().string();
    search();
  } else if (options.model.empty()) {
    options.model = demo_model_folder();
  }
}

void CapturePanel::open_model(const PanelContext& c, const std::string& model) {
  open_new(c);
  options.model = model;
  model_chosen_ = true;
}

void CapturePanel::open_closed_loop(const PanelContext& c) {
  const TracePointer trace = c.results.trace();
  if (!trace) return;
  open_ = appeared_ = true;
  options.shared_weights = true;
  model_chosen_ = false;
  use_trace(c);
  options.block = replay_block(*trace, c.state.block);
  options.context_only =
      replay_compression(*trace, c.state.compression) == Compression::context_only;
  options.policy = c.state.policy_a.text();
  options.budget = std::to_string(c.state.budget.resolve(trace->run().prompt_length));
  options.output = proposed_place(trace->path().string(), cache_,
                                  trace->path().stem().string() + "-" + file_word(options.policy) +
                                      "-" + options.budget + ".h5");
}

/// The open trace's tokens, and the known facts of their model.
void CapturePanel::use_trace(const PanelContext& c) {
  const TracePointer trace = c.results.trace();
  if (!trace) return;
  options.prompt = CaptureOptions::Prompt::trace;
  options.from = trace->path().string();
  prompt_tokens_ = trace->run().prompt_length;
  given_tokens_ = trace->length() - prompt_tokens_;
  options.own_answer = given_tokens_ > 0;
  const ModelInfo& model = trace->model();
  made_by_ = model.name.empty() ? model.architecture : model.name;
  trace_ = trace->path().string();
  fingerprint_.clear();
  search();
}

void CapturePanel::search() {
  if (!options.model.empty()) last_model_ = options.model;
  search_model(trace_, last_model_);
}

std::string CapturePanel::mismatch() const {
  const auto holds = check_.current();
  const bool forced = options.prompt == CaptureOptions::Prompt::trace && !fingerprint_.empty();
  if (!forced || !holds || holds->empty() || *holds == fingerprint_) return {};
  return fmt::format("{}: this model is not the {} that made the open trace", options.model,
                     made_by_.empty() ? "one" : made_by_);
}

void CapturePanel::follow_model() {
  if (const auto found = take_found()) {
    fingerprint_ = found->fingerprint;
    // A trace that does not say which model made it leaves the folder of the last capture there. A
    // new prompt does, too, where the trace's model is not known.
    const bool forced = options.prompt == CaptureOptions::Prompt::trace;
    if (!model_chosen_ && !fingerprint_.empty() && (forced || !found->folder.empty()))
      options.model = found->folder;
  }
  const bool forced = options.prompt == CaptureOptions::Prompt::trace && !fingerprint_.empty();
  if (!forced || options.model.empty() || !holds_model(options.model)) {
    check_.clear();
    return;
  }
  check_.request(model_queue_, fmt::format("{}#{}", options.model, searches_),
                 [folder = options.model](Progress& progress, const auto&) {
                   return model_fingerprint(folder, progress);
                 });
}

/// Asks for the forecast of the run, once the fields have not changed for a moment.
void CapturePanel::foresee() {
  if (running() || looking() || !capture_problem(options).empty()) {
    if (!running()) forecast_.clear();
    return;
  }
  std::string key;
  for (const std::string& word : capture_command(options, {})) key += word + '\n';
  forecast_.request(
      forecast_queue_, key,
      [options = options](Progress& progress, const auto&) {
        return foresee_capture(options, progress);
      },
      std::chrono::milliseconds(400));
}

std::string CapturePanel::forecast() const {
  if (const auto known = forecast_.current()) return forecast_text(*known);
  return forecast_.error();
}

void CapturePanel::propose_length() {
  constexpr int kAnswer = 16;
  const std::string prompt =
      fmt::format("{}\n{}", static_cast<int>(options.prompt),
                  options.prompt == CaptureOptions::Prompt::text ? options.text : options.file);
  if (asked_of_ == prompt) return;
  asked_of_ = prompt;
  const int length = asks_a_question(options) ? kAnswer : 0;
  if (options.generate == proposed_length_) options.generate = length;
  proposed_length_ = length;
}

void CapturePanel::start() {
  run_model_ = options.model;
  start_run(options.output, [options = options](Progress& progress, const auto& publish) {
    return run_capture_program(options, progress, publish);
  });
}

void CapturePanel::follow(const PanelContext& c) {
  const auto state = take_end(c, "Capture");
  if (!state) return;
  models_.add(state->model_fingerprint, run_model_);
  c.ask(OpenFile{state->trace});
  const std::string said =
      state->own_answer.empty()
          ? state->notes.empty() ? "" : ": " + state->notes.back()
          : fmt::format(". The model's own answer: “{}”", in_one_line(state->own_answer, 120));
  c.tell("Captured " + state->trace + said);
}

void CapturePanel::draw_prompt(const PanelContext& c) {
  using Prompt = CaptureOptions::Prompt;
  form_field(c, "prompt");
  const auto choice = [&](const char* title, Prompt prompt) {
    if (radio_button(title, options.prompt == prompt, c.colours())) options.prompt = prompt;
  };
  choice("a file", Prompt::file);
  ImGui::SameLine();
  choice("this text", Prompt::text);
  if (const TracePointer trace = c.results.trace()) {
    constexpr const char* title = "the open trace's tokens";
    const ImGuiStyle& style = ImGui::GetStyle();
    const float needs =
        ImGui::GetFrameHeight() + style.ItemInnerSpacing.x + ImGui::CalcTextSize(title).x;
    if (!stay_on_line(needs, style.ItemSpacing.x)) ImGui::SetCursorPosX(c.px(kFormNames));
    if (radio_button(title, options.prompt == Prompt::trace, c.colours())) use_trace(c);
    help_tooltip(c.fonts,
                 "Run the same tokens. Those after the prompt are given to the model, too, so that "
                 "the two runs can be compared; in a second run of the prompt it writes its own "
                 "answer, which the trace holds beside them");
  }
  const float browse = c.px(80);
  if (options.prompt == Prompt::file) {
    form_field(c, "", browse);
    ImGui::InputTextWithHint("##file", "text file", &options.file);
    ImGui::SameLine();
    if (ImGui::Button("Browse…##prompt", {browse, 0})) {
      files_.open(FilePanel::Purpose::open_prompt, options.file);
    }
  } else if (options.prompt == Prompt::text) {
    ImGui::SetCursorPosX(c.px(kFormNames));
    ImGui::InputTextMultiline("##text", &options.text, {-1, c.px(96)});
  } else {
    form_field(c, "");
    ImGui::TextUnformatted(fmt::format("{} + {} given after them, from {}",
                                       count_text(prompt_tokens_), count_text(given_tokens_),
                                       fs::path(options.from).filename().string())
                               .c_str());
  }
}

void CapturePanel::draw_policy(const PanelContext& c) {
  bool closed = options.closed_loop();
  form_field(c, "cache");
  if (radio_button("full", !closed, c.colours())) options.policy = kFullCache;
  help_tooltip(c.fonts, "Every policy can then be replayed on the trace (open loop)");
  ImGui::SameLine();
  if (radio_button("a policy (closed loop)", closed, c.colours()) && !closed) {
    options.policy = c.state.policy_a.text();
    if (options.budget.empty()) options.budget = c.state.budget.text();
  }
  help_tooltip(c.fonts,
               "The policy evicts in each layer's cache after every block. Later keys and values "
               "in every layer above 0 then come from a model that runs with the policy");
  if (!options.closed_loop()) return;
  const float budget = c.px(96);
  form_field(c, "policy", budget + c.px(64));
  ImGui::PushFont(c.fonts.mono);
  ImGui::InputText("##policy", &options.policy);
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::TextDisabled("budget");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(-1);
  ImGui::InputText("##budget", &options.budget);
}

void CapturePanel::draw_model(const PanelContext& c) {
  const float browse = c.px(80);
  const float list = ImGui::GetFrameHeight();
  form_field(c, "model", browse + list + ImGui::GetStyle().ItemSpacing.x);
  const char* hint = search_.computing()
                         ? "looking for the model that made the trace …"
                         : "GGUF file, or folder with config.json, model.safetensors, tokenizer";
  if (ImGui::InputTextWithHint("##model", hint, &options.model)) model_chosen_ = true;
  ImGui::SameLine();
  if (ImGui::BeginCombo("##models", "",
                        ImGuiComboFlags_NoPreview | ImGuiComboFlags_PopupAlignLeft)) {
    const std::string last = options.model.empty() ? last_model_ : options.model;
    for (const std::string& folder : offered_models(models_, fingerprint_, last)) {
      ImGui::PushID(folder.c_str());
      if (list_line(model_title(folder).c_str(), folder == options.model)) {
        options.model = folder;
        model_chosen_ = true;
      }
      help_tooltip(c.fonts, folder);
      ImGui::PopID();
    }
    ImGui::EndCombo();
  } else {
    help_tooltip(c.fonts, "Models used before, and the demo model");
  }
  ImGui::SameLine();
  if (ImGui::Button("Browse…##model", {browse, 0})) {
    std::error_code error;
    const bool folder = fs::is_directory(options.model, error);
    files_.open(FilePanel::Purpose::open_model, folder ? options.model + "/" : options.model);
  }
}

void CapturePanel::draw_form(const PanelContext& c) {
  draw_model(c);
  draw_prompt(c);
  if (options.prompt == CaptureOptions::Prompt::file ||
      options.prompt == CaptureOptions::Prompt::text) {
    ImGui::SetCursorPosX(c.px(kFormNames));
    checkbox("as a message of a chat", options.chat, c.colours());
    help_tooltip(c.fonts, kChatHelp);
  }
  draw_policy(c);
  form_field(c, "block");
  ImGui::SetNextItemWidth(c.px(128));
  if (ImGui::InputInt("##block", &options.block, 16, 128))
    options.block = std::clamp(options.block, 1, 1 << 20);
  help_tooltip(c.fonts, "B: prompt tokens that are run together");
  if (options.prompt != CaptureOptions::Prompt::trace) {
    constexpr const char* title = "generate";
    const float number = c.px(128);
    const float needs = ImGui::CalcTextSize(title).x + ImGui::GetStyle().ItemSpacing.x + number;
    if (stay_on_line(needs, c.px(24))) {
      ImGui::TextDisabled("%s", title);
      ImGui::SameLine();
    } else {
      form_field(c, title);
    }
    ImGui::SetNextItemWidth(number);
    if (ImGui::InputInt("##generate", &options.generate, 1, 16)) {
      options.generate = std::clamp(options.generate, 0, 1 << 20);
    }
    help_tooltip(c.fonts, "Largest number of tokens to generate after the prompt, greedily");
  }
  form_field(c, "trace");
  ImGui::InputText("##output", &options.output);
  ImGui::SetCursorPosX(c.px(kFormNames));
  bool whole = !options.shared_weights;
  if (checkbox("with the model's weights", whole, c.colours())) options.shared_weights = !whole;
  help_tooltip(
      c.fonts,
      "The trace holds the output projections, so that every measure can be computed on "
      "another machine, too. Without them it is smaller: they are kept once for all traces "
      "of a model, in the cache folder");
}

void CapturePanel::draw_run(const PanelContext& c) {
  const auto state = run_.current();
  const std::string line =
      !state || state->total == 0
          ? std::string("Reading the model …")
          : fmt::format("{} {} of {} tokens · {} tokens/s{}",
                        state->done < state->prompt_length ? "Reading:" : "Generating:",
                        count_text(state->done), count_text(state->total),
                        three_digits(state->tokens_per_second),
                        state->seconds_left >= 0.0
                            ? fmt::format(" · {:.0f} s left", state->seconds_left)
                            : std::string());
  draw_progress(c, line);
  if (state) {
    if (!state->size.empty()) wrapped_text(state->size);
    for (const std::string& note : state->notes) wrapped_text(note);
  }
}

std::pair<std::string, bool> CapturePanel::state_line() const {
  if (!problem_.empty()) return {problem_, true};
  const bool forced = options.prompt == CaptureOptions::Prompt::trace && !fingerprint_.empty();
  const std::string model = made_by_.empty() ? "the model" : made_by_;
  if (search_.computing()) return {"Looking for " + model + ", which made the open trace …", false};
  if (forced && options.model.empty()) {
    return {"None of the models used before is " + model +
                ", which made the open trace; choose its folder.",
            false};
  }
  if (const std::string problem = capture_problem(options); !problem.empty())
    return {problem, false};
  if (const std::string other = mismatch(); !other.empty()) return {other + ".", true};
  const auto holds = check_.current();
  return {forced && holds && *holds == fingerprint_
              ? "The model that made the open trace. Writes the new trace, then opens it."
              : "Writes the trace, then opens it.",
          false};
}

void CapturePanel::draw(const PanelContext& c) {
  follow(c);
  if (open_) {
    follow_model();
    propose_length();
    foresee();
  }
  if (std::string chosen; choose_file(c, chosen)) {
    const bool model = files_.purpose() == FilePanel::Purpose::open_model;
    (model ? options.model : options.file) = chosen;
    model_chosen_ = model_chosen_ || model;
  }
  if (!open_ || files_.is_open()) return;
  begin_sheet(c, "##capture", options.closed_loop() ? "New capture: closed loop" : "New capture",
              height_, appeared_);
  appeared_ = false;
  const bool runs = running();
  ImGui::BeginDisabled(runs);
  draw_form(c);
  ImGui::EndDisabled();
  const float notes = begin_notes({kLongState, kLongForecast});
  if (runs) {
    draw_run(c);
  } else {
    const auto [line, is_error] = state_line();
    wrapped_text(is_error ? c.colours().error : c.colours().secondary, line);
    const std::string takes = forecast();
    if (!takes.empty() || foreseeing()) {
      wrapped_text(c.colours().secondary,
                   !takes.empty() ? takes : "Asking what the run will take …");
    }
  }
  end_notes(notes);
  ImGui::SetCursorPosX(c.px(kFormNames));
  if (runs) {
    if (stop_button(c, "Cancel", "", "the trace opens when it is ready")) cancel();
  } else {
    const bool ready = capture_problem(options).empty() && !looking();
    const bool differs = !mismatch().empty();
    if (start_button(c, differs ? "Capture anyway" : "Capture", differs ? 160 : 96, ready,
                     !differs))
      start();
  }
  height_ = end_sheet();
}

}  // namespace kvloupe::window
