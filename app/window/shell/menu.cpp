#include <imgui.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "app/figure/figures/figure_catalog.h"
#include "app/session/view_catalog.h"
#include "app/window/panels/panels.h"
#include "app/window/sheets/command_palette.h"
#include "app/window/shell/workspace.h"
#include "app/window/state/layouts.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

/// `why_not`: why it cannot be done now; empty: it can.
void item(const PanelContext& c, std::string_view words, Command command, bool ticked,
          std::string_view why_not, std::string_view tooltip) {
  if (ImGui::MenuItem(std::string(words).c_str(), std::string(keys_of(command)).c_str(), ticked,
                      why_not.empty()))
    c.ask(command);
  std::string text(why_not);
  if (!tooltip.empty()) text += (text.empty() ? "" : "\n") + std::string(tooltip);
  help_tooltip(c.fonts, text);
}

/// The traces opened last, as lines to choose from.
void draw_recent(const PanelContext& c, const RecentFiles& recent) {
  if (!ImGui::BeginMenu("Open recent", !recent.files().empty())) return;
  std::string chosen;
  for (const std::string& file : recent.files()) {
    ImGui::PushID(file.c_str());
    if (ImGui::Selectable(std::filesystem::path(file).filename().string().c_str())) chosen = file;
    help_tooltip(c.fonts, file);
    ImGui::PopID();
  }
  ImGui::EndMenu();
  if (!chosen.empty()) c.ask(OpenFile{chosen});
}

/// A menu for each topic, a line for each view.
void draw_views(const PanelContext& c) {
  const std::string now = c.state.tiles[static_cast<std::size_t>(c.state.active_tile)].view;
  const bool open = c.results.trace() != nullptr;
  for (const figure::Topic topic : figure::topics()) {
    if (!ImGui::BeginMenu(std::string(figure::heading(topic)).c_str(), open)) continue;
    for (const figure::FigureInfo& view : figure::figure_catalog()) {
      if (view.topic != topic) continue;
      const std::string problem = why_not(view, c.results, c.state);
      if (ImGui::MenuItem(view.title.c_str(), nullptr, now == view.name, problem.empty())) {
        c.ask(ShowView{view.name});
      }
      help_tooltip(c.fonts, problem.empty() ? view.tooltip : problem);
    }
    ImGui::EndMenu();
  }
}

void draw_layouts(const PanelContext& c) {
  if (!ImGui::BeginMenu("Layout", c.results.trace() != nullptr)) return;
  for (const Layout& layout : layouts()) {
    item(c, layout.name, layout.command, false, {}, layout.words);
  }
  ImGui::EndMenu();
}

}  // namespace

void Workspace::draw_themes(const PanelContext& c) {
  constexpr std::array kTitles = {"Light", "Dark", "High contrast"};
  if (!ImGui::BeginMenu("Theme")) return;
  for (std::size_t i = 0; i < kTitles.size(); ++i) {
    const Theme theme = figure::kThemes[i];
    if (ImGui::MenuItem(kTitles[i], nullptr, state.theme == theme)) state.theme = theme;
  }
  ImGui::Separator();
  draw_commands(c, Menu::theme);
  ImGui::EndMenu();
}

/// The rows of a menu, section by section, and the other items among them.
void Workspace::draw_commands(const PanelContext& c, Menu menu) {
  std::vector<const CommandRow*> rows;
  for (const CommandRow& row : commands()) {
    if (row.menu.menu == menu) rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const CommandRow* a, const CommandRow* b) {
    return a->menu.section < b->menu.section;
  });
  int section = 0;
  for (const CommandRow* row : rows) {
    const MenuPlace& place = row->menu;
    if (place.section != section) ImGui::Separator();
    section = place.section;
    if (row->command == Command::tiles_1) draw_layouts(c);
    if (row->command == Command::patterns) draw_themes(c);
    const std::string text =
        std::string(place.text) + (place.detail != nullptr ? place.detail(*this) : "");
    std::string_view why_not = missing_for(row->needs, results.trace() != nullptr,
                                           results.evaluation() != nullptr, lessons.is_open());
    if (why_not.empty() && place.possible != nullptr && !place.possible(*this))
      why_not = place.why_not.empty() ? "This is not possible now." : place.why_not;
    item(c, text, row->command, place.ticked != nullptr && place.ticked(*this), why_not,
         place.tooltip);
    if (row->command == Command::open) draw_recent(c, recent_);
    if (row->command == Command::choose_view) draw_views(c);
  }
}

bool Workspace::notice_fits_in_bar() const {
  if (!results.trace() && !results.evaluation()) return false;  // the start page has room
  constexpr float kJobs = 320.0F;                               // stays free for what computes
  const ImGuiStyle& style = ImGui::GetStyle();
  const float button = ImGui::CalcTextSize("Dismiss").x + 2 * style.FramePadding.x;
  const float needs =
      ImGui::CalcTextSize(notice.c_str()).x + style.ItemSpacing.x + button + kJobs * fonts.scale();
  return notice.find('\n') == std::string::npos &&
         notice_begin_ + needs <= ImGui::GetIO().DisplaySize.x;
}

void Workspace::draw_notice_in_bar(const PanelContext& c) {
  notice_begin_ = ImGui::GetCursorPosX() + c.px(16);
  if (notice.empty() || !notice_fits_in_bar()) return;
  ImGui::SetCursorPosX(notice_begin_);
  ImGui::PushStyleColor(ImGuiCol_Text, notice_is_error ? c.colours().error : c.colours().secondary);
  ImGui::TextUnformatted(notice.c_str());
  ImGui::PopStyleColor();
  if (ImGui::SmallButton("Dismiss")) notice.clear();
}

void Workspace::draw_menu(const PanelContext& c) {
  constexpr std::array<std::pair<Menu, const char*>, 5> kMenus = {{{Menu::file, "File"},
                                                                   {Menu::edit, "Edit"},
                                                                   {Menu::view, "View"},
                                                                   {Menu::lessons, "Lessons"},
                                                                   {Menu::help, "Help"}}};
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(8), c.px(8)});
  if (ImGui::BeginMainMenuBar()) {
    for (const auto& [menu, title] : kMenus) {
      if (!ImGui::BeginMenu(title)) continue;
      if (menu == Menu::lessons) draw_lesson_list(c, lessons);
      draw_commands(c, menu);
      ImGui::EndMenu();
    }
    draw_notice_in_bar(c);
    draw_progress(c);
    ImGui::EndMainMenuBar();
  }
  ImGui::PopStyleVar();
}

}  // namespace kvloupe::window
