#include "app/window/sheets/cache_sheet.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cctype>

#include "analysis/base/core/error.h"
#include "analysis/trace/trace_size.h"
#include "app/demo/demo_trace.h"
#include "app/window/sheets/sheet_form.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {
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
  return list ? list->lines : std::vector<Line>();
}

void CacheSheet::read_again(Act act) {
  ++reads_;
  act_ = std::move(act);
  all_asked_ = false;
}

void CacheSheet::tell_result(const PanelContext& c) {
  if (told_ == reads_ || list_.computing()) return;
  told_ = reads_;
  if (!list_.error().empty()) return c.fail(list_.error());
  const auto list = list_.whole();
  if (!list || !list->removed) return;
  std::string text = removal_text(*list->removed);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  c.tell(text);
}

void CacheSheet::draw_limit(const PanelContext& c, std::uint64_t bytes) {
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
    read_again([limit = *typed](const CacheFolder& folder) {
      set_cache_limit(limit);
      return folder.keep_below(limit);
    });
  }
  ImGui::SameLine();
  if (all_asked_) {
    if (ImGui::Button("Remove them all"))
      read_again([](const CacheFolder& folder) { return folder.clear(); });
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
    ImGui::TextUnformatted(last_use_text(line.file).c_str());
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
  if (gone) read_again([file = *gone](const CacheFolder& folder) { return folder.remove(file); });
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
                [place, act = act_](Progress& progress, const auto&) {
                  const CacheFolder folder(place);
                  Listed listed;
                  if (act) listed.removed = act(folder);
                  std::vector<KeptFile> files = folder.files();
                  std::reverse(files.begin(), files.end());  // what was used last comes first
                  for (KeptFile& file : files) {
                    progress.check();
                    std::string about = about_kept_file(file);
                    listed.lines.push_back({std::move(file), std::move(about)});
                  }
                  return listed;
                });
  const auto list = list_.value();  // the one before stays until the next is there
  const std::vector<Line> lines = list ? list->lines : std::vector<Line>();
  tell_result(c);
  std::uint64_t bytes = 0;
  for (const Line& line : lines) bytes += line.file.bytes;

  begin_list_sheet(c, "##cache", "Cache folder", 420);
  if (list_sheet_title(busy() ? (act_ ? "removing files" : "reading the list")
                              : files_text(lines.size())))
    close();
  ImGui::TextWrapped("%s", fmt::format("Traces and weights that the program made by itself and can "
                                       "make again, in {}",
                                       place.string())
                               .c_str());
  ImGui::BeginDisabled(busy());  // one act at a time
  draw_limit(c, bytes);
  draw_list(c, lines);
  ImGui::EndDisabled();
  end_list_sheet();
}

}  // namespace kvloupe::window
