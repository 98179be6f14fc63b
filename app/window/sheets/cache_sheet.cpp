#include "app/window/sheets/cache_sheet.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "analysis/error.h"
#include "analysis/trace/trace_size.h"
#include "app/demo/demo_trace.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {
std::string day_text(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&time, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

std::string kept_count_text(std::size_t files) {
  return fmt::format("{} file{}", files, files == 1 ? "" : "s");
}

std::optional<std::uint64_t> bytes_in(const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const UsageError&) {
    return std::nullopt;
  }
}
}  // namespace

void CacheSheet::open() {
  open_ = true;
  all_asked_ = false;
  limit_ = bytes_text(cache_limit());
  read_again();
}

std::vector<CacheSheet::Line> CacheSheet::lines() const {
  const auto list = list_.current();
  return list ? *list : std::vector<Line>();
}

void CacheSheet::say(const PanelContext& c, const Removal& removal) {
  std::string text =
      fmt::format("Removed {}, {}", kept_count_text(static_cast<std::size_t>(removal.files)),
                  bytes_text(removal.bytes));
  if (removal.in_use > 0)
    text += fmt::format("; {} in use stayed",
                        kept_count_text(static_cast<std::size_t>(removal.in_use)));
  c.tell(text);
  all_asked_ = false;
  read_again();
}

void CacheSheet::draw_limit(const PanelContext& c, std::uint64_t bytes) {
  const CacheFolder folder(demo::traces_folder(cache_));
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(fmt::format("{} of at most", bytes_text(bytes)).c_str());
  ImGui::SameLine();
  ImGui::SetNextItemWidth(c.px(80));
  const auto typed = bytes_in(limit_);
  if (!typed) ImGui::PushStyleColor(ImGuiCol_Text, c.colours().error);
  ImGui::InputText("##limit", &limit_);
  const bool left = ImGui::IsItemDeactivatedAfterEdit();
  if (!typed) ImGui::PopStyleColor();
  help_tooltip(c.fonts, typed ? "Such as 10 GB or 500 MB. Files that were unused for longest go "
                                "first, never one that a program has open"
                              : "This is no size; give one such as 10 GB or 500 MB.");
  if (left && typed) {
    try {
      set_cache_limit(*typed);
      say(c, folder.keep_below(*typed));
    } catch (const std::exception& problem) {
      c.fail(problem.what());
    }
  }
  ImGui::SameLine();
  if (all_asked_) {
    if (ImGui::Button("Remove them all")) say(c, folder.clear());
    ImGui::SameLine();
    if (ImGui::Button("Keep them")) all_asked_ = false;
  } else {
    ImGui::BeginDisabled(bytes == 0);
    if (ImGui::Button("Remove all…")) all_asked_ = true;
    ImGui::EndDisabled();
    help_tooltip(c.fonts, "All files can be made again by running the model again");
  }
}

void CacheSheet::draw_list(const PanelContext& c, const std::vector<Line>& lines) {
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_RowBg | ImGuiTableFlags_ScrollY |
                                     ImGuiTableFlags_BordersInnerH |
                                     ImGuiTableFlags_NoSavedSettings;
  if (!ImGui::BeginTable("##kept", 4, kFlags)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  ImGui::TableSetupColumn("file", ImGuiTableColumnFlags_WidthStretch);
  ImGui::TableSetupColumn("size", ImGuiTableColumnFlags_WidthFixed, c.px(64));
  ImGui::TableSetupColumn("last used", ImGuiTableColumnFlags_WidthFixed, c.px(120));
  ImGui::TableSetupColumn("##remove", ImGuiTableColumnFlags_WidthFixed, c.px(64));
  ImGui::TableHeadersRow();
  std::optional<KeptFile> gone;
  remove_places_.clear();
  for (const Line& line : lines) {
    ImGui::PushID(line.file.path.c_str());
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const std::string text =
        line.about.empty() ? std::string(kept_kind_name(line.file.kind))
                           : fmt::format("{}: {}", kept_kind_name(line.file.kind), line.about);
    ImGui::TextUnformatted(text.c_str());
    help_tooltip(c.fonts, text + "\n" + line.file.path.string());
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(bytes_text(line.file.bytes).c_str());
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(day_text(line.file.used).c_str());
    ImGui::TableNextColumn();
    if (line.file.in_use) {
      ImGui::TextDisabled("in use");
      help_tooltip(c.fonts, "A window or a program has this file open");
    } else {
      if (ImGui::SmallButton("Remove")) gone = line.file;
      const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
      remove_places_.emplace_back(line.file.path,
                                  ImVec2((low.x + high.x) / 2, (low.y + high.y) / 2));
    }
    ImGui::PopID();
  }
  ImGui::EndTable();
  if (gone) say(c, CacheFolder(demo::traces_folder(cache_)).remove(*gone));
}

void CacheSheet::draw(const PanelContext& c) {
  if (!open_) return;
  std::filesystem::path place;
  try {
    place = demo::traces_folder(cache_);
  } catch (const WorkError& problem) {
    c.fail(problem.what());
    return close();
  }
  list_.request(queue_, fmt::format("{}#{}", place.string(), reads_),
                [place](Progress& progress, const auto&) {
                  std::vector<Line> lines;
                  std::vector<KeptFile> files = CacheFolder(place).files();
                  std::reverse(files.begin(), files.end());  // what was used last comes first
                  for (KeptFile& file : files) {
                    progress.check();
                    std::string about = about_kept_file(file);
                    lines.push_back({std::move(file), std::move(about)});
                  }
                  return lines;
                });
  const auto list = list_.value();  // the one before stays until the next is there
  const std::vector<Line> lines = list ? *list : std::vector<Line>();
  std::uint64_t bytes = 0;
  for (const Line& line : lines) bytes += line.file.bytes;

  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(c.px(640), screen.x - c.px(32)),
                    std::min(c.px(420), screen.y - c.px(64))};
  ImGui::SetNextWindowPos({screen.x / 2, screen.y / 2}, ImGuiCond_Appearing, {0.5F, 0.5F});
  ImGui::SetNextWindowSize(size, ImGuiCond_Appearing);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(12), c.px(12)});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, c.colours().panel);
  ImGui::Begin(
      "##cache", nullptr,
      ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoCollapse);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
  text_in(c.fonts.heading, "Cache folder");
  ImGui::SameLine();
  ImGui::PushFont(c.fonts.secondary);
  ImGui::TextDisabled("%s", (busy() ? "reading the list" : kept_count_text(lines.size())).c_str());
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::CalcTextSize("Close").x -
                  2 * ImGui::GetStyle().FramePadding.x);
  if (ImGui::SmallButton("Close")) close();
  ImGui::TextWrapped("%s", fmt::format("Traces and weights that the program made by itself and can "
                                       "make again, in {}",
                                       place.string())
                               .c_str());
  draw_limit(c, bytes);
  draw_list(c, lines);
  ImGui::PopFont();
  ImGui::End();
}

}  // namespace kvloupe::window
