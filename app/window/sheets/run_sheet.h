#pragma once

#include <fmt/format.h>
#include <imgui.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "app/job/computed.h"
#include "app/window/sheets/file_panel.h"
#include "app/window/sheets/sheet_form.h"
#include "app/window/state/known_models.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

/// A sheet with a form that starts a child process, which may run for hours, also while the sheet
/// is closed. `State`: what is known of the run so far.
template <class State>
class RunSheet {
 public:
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  bool running() const { return run_.computing(); }
  /// 0 to 1 while running.
  double fraction() const {
    const auto state = run_.current();
    return state ? state->fraction() : 0.0;
  }

 protected:
  /// `models`, which folder holds which model, outlives this; `cache`: no new files go there.
  RunSheet(const std::function<void()>& wake, KnownModels& models, std::filesystem::path cache)
      : models_(models),
        cache_(std::move(cache)),
        files_(wake),
        queue_(1, wake),
        model_queue_(1, wake) {}

  void start_run(const std::string& output, typename job::Computed<State>::Work work) {
    problem_.clear();
    run_.request(queue_, fmt::format("{}#{}", output, ++runs_), std::move(work));
  }
  /// The last state of a run that succeeded, once; it closes the sheet. What went wrong with
  /// another is kept, and told where the sheet is closed.
  std::shared_ptr<const State> take_end(const PanelContext& c, const char* what) {
    if (run_.key().empty() || run_.computing() || told_ == run_.key()) return nullptr;
    told_ = run_.key();
    problem_ = run_.error();
    if (!problem_.empty() && !open_) c.fail(what + (": " + problem_));
    auto end = problem_.empty() ? run_.current() : nullptr;
    if (end) open_ = false;
    return end;
  }
  /// Looks for the model that made the trace in every folder there is reason to look in.
  void search_model(const std::string& trace, const std::string& last) {
    search_.request(model_queue_, fmt::format("{}#{}", trace, ++searches_),
                    [trace, known = models_, last](Progress& progress, const auto&) {
                      return find_model_of(trace, known, last, progress);
                    });
  }
  /// What was found, once.
  std::shared_ptr<const ModelFound> take_found() {
    auto found = search_.current();
    if (!found || taken_ == search_.key()) return nullptr;
    taken_ = search_.key();
    if (!found->folder.empty()) models_.add(found->fingerprint, found->folder);
    return found;
  }
  /// Draws the sheet of files if it is open. Whether a file was chosen; of a config.json `path` is
  /// the folder.
  bool choose_file(const PanelContext& c, std::string& path) {
    if (!files_.draw(c.fonts, c.colours())) return false;
    path = files_.chosen();
    const std::filesystem::path chosen = path;
    if (files_.purpose() == FilePanel::Purpose::open_model && chosen.filename() == "config.json")
      path = chosen.parent_path().string();
    return appeared_ = true;  // this sheet comes to the front again
  }
  void draw_progress(const PanelContext& c, const std::string& line) const {
    ImGui::TextUnformatted(line.c_str());
    ImGui::PushStyleColor(ImGuiCol_PlotHistogram, c.colours().retained);
    ImGui::ProgressBar(static_cast<float>(fraction()), {-1, c.px(8)}, "");
    ImGui::PopStyleColor();
  }
  /// The buttons of a run, and of a form. `stop`, `help`: what ends a run, and what that leaves.
  bool stop_button(const PanelContext& c, const char* stop, const char* help, const char* result) {
    const bool stopped = ImGui::Button(stop, {c.px(96), 0});
    help_tooltip(c.fonts, help);
    ImGui::SameLine();
    if (ImGui::Button("Run in background", {c.px(128), 0})) open_ = false;
    help_tooltip(c.fonts, std::string("Closes this sheet; ") + result);
    return stopped;
  }
  bool start_button(const PanelContext& c, const char* start, float width, bool ready,
                    bool by_key = true) {
    const ImGuiIO& io = ImGui::GetIO();
    // Enter, where no field and no control under the keyboard takes it.
    const bool entered = ready && by_key && !io.WantTextInput && !io.NavVisible &&
                         went_down(io.KeyMap[ImGuiKey_Enter], false);
    ImGui::BeginDisabled(!ready);
    const bool started = ImGui::Button(start, {c.px(width), 0}) || entered;
    help_tooltip(c.fonts, "Enter");
    ImGui::EndDisabled();
    ImGui::SameLine();
    if (ImGui::Button("Close", {c.px(96), 0})) open_ = false;
    return started;
  }

  KnownModels& models_;
  std::filesystem::path cache_;
  bool open_ = false;
  bool appeared_ = false;
  float height_ = 0.0F;  // of the sheet, when it was drawn last
  long runs_ = 0, searches_ = 0;
  std::string told_;     // the run whose end was told
  std::string taken_;    // the search whose result was taken
  std::string problem_;  // of the last run
  FilePanel files_;
  job::JobQueue queue_, model_queue_;  // separate, because a run may take long
  job::Computed<State> run_;
  job::Computed<ModelFound> search_;  // the model of the open trace
};

}  // namespace kvloupe::window
