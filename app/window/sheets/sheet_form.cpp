#include "app/window/sheets/sheet_form.h"

#include <imgui.h>

#include <algorithm>
#include <system_error>

#include "analysis/trace/kept_files.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace fs = std::filesystem;

void form_field(const PanelContext& c, const char* text, float button) {
  name_control(c.fonts, text, c.px(kFormNames));
  if (button > 0.0F) ImGui::SetNextItemWidth(-button - ImGui::GetStyle().ItemSpacing.x);
}

std::string proposed_place(const std::string& trace, const fs::path& cache,
                           const std::string& file) {
  std::error_code error;
  const fs::path folder = fs::path(trace).parent_path();
  const fs::path kept = fs::weakly_canonical(cache.empty() ? cache_folder() : cache, error);
  const fs::path inside = fs::weakly_canonical(folder, error).lexically_relative(kept);
  const bool hidden = !kept.empty() && !inside.empty() && *inside.begin() != "..";
  return ((folder.empty() || hidden ? fs::current_path(error) : folder) / file).string();
}

void begin_sheet(const PanelContext& c, const char* id, const char* heading, float height,
                 bool focus) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float width = std::min(c.px(640), screen.x - 32);
  const float edge = c.px(8);
  const float top = std::max(edge, std::min(screen.y / 5, screen.y - height - edge));
  ImGui::SetNextWindowPos({(screen.x - width) / 2, top});
  ImGui::SetNextWindowSizeConstraints({width, 0}, {width, screen.y - 2 * edge});
  ImGui::SetNextWindowSize({width, 0});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(16), c.px(16)});
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, {c.px(8), c.px(8)});
  if (focus) ImGui::SetNextWindowFocus();
  ImGui::Begin(id, nullptr,
               ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoSavedSettings);
  text_in(c.fonts.heading, heading);
}

float end_sheet() {
  const float height = ImGui::GetWindowHeight();
  ImGui::End();
  ImGui::PopStyleVar(3);
  return height;
}

float begin_notes(std::initializer_list<const char*> longest) {
  const float wide = ImGui::GetContentRegionAvail().x;
  float end = ImGui::GetCursorPosY();
  for (const char* line : longest)
    end += ImGui::CalcTextSize(line, nullptr, false, wide).y + ImGui::GetStyle().ItemSpacing.y;
  return end;
}

void end_notes(float end) { ImGui::SetCursorPosY(std::max(ImGui::GetCursorPosY(), end)); }

void begin_list_sheet(const PanelContext& c, const char* id, const char* heading, float height,
                      int flags) {
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(c.px(640), screen.x - c.px(32)),
                    std::min(c.px(height), screen.y - c.px(64))};
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Appearing, {0.5F, 0.5F});
  ImGui::SetNextWindowSize(size, ImGuiCond_Appearing);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(12), c.px(12)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, c.colours().panel);
  ImGui::Begin(id, nullptr,
               flags | ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoCollapse);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
  text_in(c.fonts.heading, heading);
  ImGui::SameLine();
  ImGui::PushFont(c.fonts.secondary);
}

bool list_sheet_title(const std::string& words) {
  ImGui::TextDisabled("%s", words.c_str());
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::CalcTextSize("Close").x -
                  2 * ImGui::GetStyle().FramePadding.x);
  return ImGui::SmallButton("Close");
}

void end_list_sheet() {
  ImGui::PopFont();
  ImGui::End();
}

}  // namespace kvloupe::window
