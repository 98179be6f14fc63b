// The running jobs: a word at the right end of the menu bar, and a list behind it.

#include <fmt/format.h>

#include "app/window/shell/workspace.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {
constexpr const char* kJobs = "Jobs";
}

std::vector<Workspace::Running> Workspace::running() {
  std::vector<Running> jobs;
  const auto add_view = [&](Tile& tile, const std::string& title) {
    if (!tile.in_sight()) return;
    if (const auto progress = tile.progress())
      jobs.push_back({title, job::how_far(*progress), progress->fraction(), [&] { tile.stop(); }});
  };
  const auto add_share = [&](std::string what, double share, std::function<void()> stop) {
    jobs.push_back({std::move(what), job::in_percent(share), share, std::move(stop)});
  };
  if (results.opening()) add_share("Opening the trace", results.opening_share(), {});
  if (sheets.capture_panel.running())
    add_share("Capture", sheets.capture_panel.fraction(),
              [this] { sheets.capture_panel.cancel(); });
  if (sheets.study_panel.running())
    add_share("Study", sheets.study_panel.fraction(), [this] { sheets.study_panel.cancel(); });
  if (start_page.capturing()) add_share("Capture of the demo", start_page.fraction(), {});
  if (lessons.capturing()) add_share("Capture for the lesson", lessons.fraction(), {});
  if (report_.writing()) add_share("File for other readers", 0.0, {});
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const figure::FigureInfo* view = find_view(state.tiles[i].view);
    if (view) add_view(tiles[i], view->title);
  }
  add_view(grid, "Grid of heads");
  return jobs;
}

void Workspace::draw_jobs(const PanelContext& c, const std::vector<Running>& jobs, float right) {
  const float width = c.px(360);
  ImGui::SetNextWindowPos({right, ImGui::GetFrameHeight() + c.px(4)}, ImGuiCond_Always, {1.0F, 0});
  ImGui::SetNextWindowSize({width, 0});
  if (!ImGui::BeginPopup(kJobs)) return;
  ImGui::TextUnformatted("Jobs in the background");
  ImGui::Separator();
  if (jobs.empty()) ImGui::TextDisabled("Nothing takes longer than a moment now.");
  const float button = ImGui::CalcTextSize("Stop").x + 2 * ImGui::GetStyle().FramePadding.x;
  for (const Running& job : jobs) {
    ImGui::PushID(job.what.c_str());
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted(job.what.c_str());
    if (job.stop) {
      ImGui::SameLine(width - button - ImGui::GetStyle().WindowPadding.x);
      if (ImGui::Button("Stop", {button, 0})) job.stop();
    }
    ImGui::ProgressBar(static_cast<float>(job.share), {-1, c.px(4)}, "");
    ImGui::TextDisabled("%s", job.how_far.c_str());
    ImGui::PopID();
  }
  ImGui::EndPopup();
}

void Workspace::draw_progress(const PanelContext& c) {
  const std::vector<Running> jobs = running();
  const bool computes = !jobs.empty() || (!settled() && c.results.trace());
  const float right = ImGui::GetWindowWidth() - c.px(8);
  if (computes) {
    const std::string text = jobs.empty()       ? "computing"
                             : jobs.size() == 1 ? jobs.front().what + ": " + jobs.front().how_far
                                                : fmt::format("{} jobs", jobs.size());
    ImGui::PushFont(c.fonts.secondary);
    const float padding = ImGui::GetStyle().FramePadding.x;
    const float x = right - ImGui::CalcTextSize(text.c_str()).x - 2 * padding;
    computing_dot(c.fonts, {x - c.px(4), ImGui::GetFrameHeight() / 2}, c.colours());
    ImGui::SetCursorPosX(x);
    ImGui::PushStyleColor(ImGuiCol_Button, 0);
    ImGui::PushStyleColor(ImGuiCol_Text, c.colours().secondary);
    if (ImGui::Button((text + "###jobs").c_str())) jobs_wanted_ = true;
    ImGui::PopStyleColor(2);
    ImGui::PopFont();
    help_tooltip(c.fonts, "What computes now, how far, and how long it still takes (Ctrl J)");
  }
  if (jobs_wanted_) ImGui::OpenPopup(kJobs);
  jobs_wanted_ = false;
  draw_jobs(c, jobs, right);
}

}  // namespace kvloupe::window
