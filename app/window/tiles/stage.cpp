#include "app/window/tiles/stage.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "app/session/view_catalog.h"
#include "app/window/tiles/state_range.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

constexpr float kRail = 28.0F;  // units: width of what is left of a folded side panel
constexpr int kPanelFlags = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                            ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoCollapse |
                            ImGuiWindowFlags_NoBringToFrontOnFocus |
                            ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoScrollbar |
                            ImGuiWindowFlags_NoScrollWithMouse;

StageSizes sizes_in(const PanelContext& c, float width, float height) {
  const auto whole = [](float pixels) { return static_cast<double>(std::floor(pixels)); };
  StageSizes sizes;
  // Where there is little room, the picture keeps it.
  sizes.left = whole(std::clamp(width * 0.26F, c.px(200), c.px(256)));
  sizes.right = whole(std::clamp(width * 0.26F, c.px(220), c.px(280)));
  sizes.bottom = whole(std::clamp(height * 0.2F, c.px(128), c.px(192)));
  sizes.side_rail = whole(c.px(28));
  sizes.bottom_rail = whole(ImGui::GetFrameHeight() + 2 * ImGui::GetStyle().WindowPadding.y);
  sizes.margin = whole(c.px(8));
  sizes.below = whole(c.px(8));
  sizes.gap = whole(c.px(16));
  sizes.header = static_cast<double>(Tile::header_height(c.fonts));
  sizes.tabs = whole(c.px(32));
  return sizes;
}

/// What the tiles shown ask for.
std::vector<TileNeed> tile_needs(const PanelContext& c, std::span<const Tile> tiles) {
  std::vector<TileNeed> needs;
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.state.tile_count); ++i) {
    needs.push_back(
        tiles[i].need(c.state.tiles[i], c.metrics, static_cast<double>(c.fonts.scale())));
  }
  return needs;
}

float pixels(double size) { return static_cast<float>(size); }

}  // namespace

void Stage::show_alone(int tile) {
  layout_ = {};
  layout_.first = static_cast<std::size_t>(tile);
  layout_.count = 1;
}

bool Stage::is_folded(Panel panel, const WorkspaceState& state) const {
  if (!trace_is_open_ || layout_.count == 0) return false;
  return (panel == Panel::left && state.left_panel && !layout_.open.left) ||
         (panel == Panel::right && state.right_panel && !layout_.open.right) ||
         (panel == Panel::bottom && state.bottom_panel && !layout_.open.bottom);
}

void Stage::toggle(Panel panel, WorkspaceState& state) {
  if (is_folded(panel, state)) {
    drawer_ = drawer_ == panel ? Panel::none : panel;
    focus_drawer_ = drawer_ != Panel::none;
    return;
  }
  bool& wanted = panel == Panel::left    ? state.left_panel
                 : panel == Panel::right ? state.right_panel
                                         : state.bottom_panel;
  wanted = !wanted;
}

void Stage::reveal(Panel panel, WorkspaceState& state) {
  bool& wanted = panel == Panel::left    ? state.left_panel
                 : panel == Panel::right ? state.right_panel
                                         : state.bottom_panel;
  wanted = true;
  if (is_folded(panel, state) && drawer_ != panel) toggle(panel, state);
}

void Stage::take_keyboard_to_next_panel(bool lesson_is_open, const WorkspaceState& state) {
  const int count = lesson_is_open ? 5 : 4;
  keyboard_panel_ = Panel((static_cast<int>(keyboard_panel_) + 1) % count);
  drawer_ = is_folded(keyboard_panel_, state) ? keyboard_panel_ : Panel::none;
  focus_keyboard_panel_ = true;
  if (keyboard_panel_ == Panel::none) ImGui::SetWindowFocus(nullptr);
}

bool Stage::close_topmost() {
  if (keyboard_panel_ != Panel::none) {
    close_drawer();
    ImGui::SetWindowFocus(nullptr);
    return true;
  }
  return std::exchange(drawer_, Panel::none) != Panel::none;
}

PanelContext Stage::panel_context(const PanelContext& context, Panel panel) {
  PanelContext own = context;
  own.keyboard = keyboard_panel_ == panel;
  if (own.keyboard && focus_keyboard_panel_) {
    ImGui::SetNextWindowFocus();
    focus_keyboard_panel_ = false;
  }
  return own;
}

void Stage::draw_panel(const PanelContext& context, const char* name, Panel panel, const Area& area,
                       const StageContent::Draw& draw, bool padded) {
  ImGui::SetNextWindowPos({area.x, area.y});
  ImGui::SetNextWindowSize({area.width, area.height});
  const ImVec2 padding = padded ? ImGui::GetStyle().WindowPadding : ImVec2{0, 0};
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, padding);
  ImGui::PushStyleColor(ImGuiCol_WindowBg, context.colours().panel);
  const PanelContext own = panel_context(context, panel);
  const bool visible =
      ImGui::Begin(name, nullptr, kPanelFlags | (own.keyboard ? 0 : ImGuiWindowFlags_NoNavInputs));
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  if (visible) draw(own);
  ImGui::End();
}

void Stage::draw(const PanelContext& c, std::span<Tile> tiles, const StageContent& content) {
  trace_is_open_ = c.results.trace() != nullptr;
  ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float top = ImGui::GetFrameHeight();
  const float height = screen.y - top;
  if (content.lesson_width > 0) {
    screen.x -= content.lesson_width;
    draw_panel(c, "##lesson", Panel::lesson, {screen.x, top, content.lesson_width, height},
               content.lesson);
  }
  const WorkspaceState& state = c.state;
  const Panels wanted =
      trace_is_open_ ? Panels{state.left_panel, state.right_panel, state.bottom_panel} : Panels{};
  const StageSizes sizes = sizes_in(c, screen.x, height);
  const std::vector<TileNeed> needs = tile_needs(c, tiles);
  layout_ = lay_out_stage(needs, static_cast<std::size_t>(state.active_tile), wanted, sizes,
                          static_cast<double>(screen.x), static_cast<double>(height));
  if (!is_folded(drawer_, state)) drawer_ = Panel::none;
  const float left = pixels(layout_.centre.x);
  const float centre = pixels(layout_.centre.width);
  const float right = screen.x - left - centre;
  float bottom = height - pixels(layout_.centre.height);
  const bool all = layout_.count == needs.size();
  if (layout_.open.bottom && !content.notice && all) {
    // Square maps leave room below them in a wide window: the text gets it.
    const double room = layout_.centre.height - sizes.below;
    const double used =
        arrange_tiles(needs, layout_.centre.width - 2 * sizes.margin, room, sizes.gap, sizes.header)
            .height_used;
    const float free = pixels(room - used);
    if (free > c.px(32)) bottom = std::floor(std::min(bottom + free, height * 0.6F));
  }
  const float side_height = height - bottom;
  draw_centre(c, tiles, content, {left, top, centre, side_height});
  if (layout_.open.left) {
    draw_panel(c, "##left", Panel::left, {0, top, left, side_height}, content.left);
  } else if (wanted.left) {
    draw_side_rail(c, "Trace and heads", Panel::left, {0, top, c.px(kRail), side_height});
  }
  if (layout_.open.right) {
    draw_panel(c, "##right", Panel::right, {screen.x - right, top, right, side_height},
               content.right);
  } else if (wanted.right) {
    draw_side_rail(c, "Budget and policies", Panel::right,
                   {screen.x - right, top, c.px(kRail), side_height});
  }
  const Area below{0, screen.y - bottom, screen.x, bottom};
  if (layout_.open.bottom) {
    draw_panel(c, "##bottom", Panel::bottom, below, content.bottom);
  } else if (wanted.bottom) {
    draw_bottom_rail(c, content, below);
  }
  if (drawer_ != Panel::none) draw_drawer(c, content, screen.x, top, side_height);
}

void Stage::draw_side_rail(const PanelContext& context, const char* title, Panel panel,
                           const Area& area) {
  const bool is_left = panel == Panel::left;
  draw_panel(
      context, is_left ? "##left-rail" : "##right-rail", panel, area,
      [&](const PanelContext& c) {
        const ImVec2 corner = ImGui::GetCursorScreenPos();
        if (ImGui::InvisibleButton("##open", {area.width, area.height})) toggle(panel, c.state);
        const bool over = ImGui::IsItemHovered();
        const bool open = drawer_ == panel;
        help_tooltip(c.fonts,
                     fmt::format("{} ({}): folded, to leave room for the views. Click {}", title,
                                 keys_of(is_left ? Command::left_panel : Command::right_panel),
                                 open ? "to hide it" : "to show it over them"));
        ImDrawList& list = *ImGui::GetWindowDrawList();
        if (over || open)
          list.AddRectFilled(corner, {corner.x + area.width, corner.y + area.height},
                             c.colours().control);
        upright_label(c.fonts, list, {corner.x + area.width / 2, corner.y + c.px(16)}, title,
                      over || open ? c.colours().ink : c.colours().secondary);
      },
      false);
}

void Stage::draw_bottom_rail(const PanelContext& context, const StageContent& content,
                             const Area& area) {
  draw_panel(context, "##bottom-rail", Panel::bottom, area, [&](const PanelContext& c) {
    const char* label = drawer_ == Panel::bottom ? "Hide text" : "Text";
    const float button = ImGui::CalcTextSize("Hide text").x + 2 * ImGui::GetStyle().FramePadding.x;
    content.bottom_line(c, button + c.px(16));
    ImGui::SameLine(area.width - button - ImGui::GetStyle().WindowPadding.x);
    if (ImGui::Button(label, {button, 0})) toggle(Panel::bottom, c.state);
    help_tooltip(c.fonts, fmt::format("The tokens ({}): folded, to leave room for the views",
                                      keys_of(Command::bottom_panel)));
  });
}

void Stage::draw_drawer(const PanelContext& context, const StageContent& content, float room,
                        float top, float height) {
  const float rail = context.px(kRail);
  const bool is_left = drawer_ == Panel::left;
  const bool is_right = drawer_ == Panel::right;
  const float width = std::min(context.px(is_left ? 256 : 280), room - rail);
  const float text = std::min(context.px(160), height);
  ImGui::SetNextWindowPos(is_left    ? ImVec2{rail, top}
                          : is_right ? ImVec2{room - rail - width, top}
                                     : ImVec2{0, top + height - text});
  ImGui::SetNextWindowSize(is_left || is_right ? ImVec2{width, height} : ImVec2{room, text});
  const PanelContext own = panel_context(context, drawer_);
  if (std::exchange(focus_drawer_, false)) ImGui::SetNextWindowFocus();
  ImGui::PushStyleColor(ImGuiCol_WindowBg, own.colours().panel);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                           ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoScrollWithMouse;
  if (!own.keyboard) flags |= ImGuiWindowFlags_NoNavInputs;
  ImGui::Begin(is_left    ? "##left-drawer"
               : is_right ? "##right-drawer"
                          : "##bottom-drawer",
               nullptr, flags);
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  (is_left ? content.left : is_right ? content.right : content.bottom_drawer)(own);
  ImGui::End();
}

void Stage::draw_centre(const PanelContext& c, std::span<Tile> tiles, const StageContent& content,
                        const Area& area) {
  ImGui::SetNextWindowPos({area.x, area.y});
  ImGui::SetNextWindowSize({area.width, area.height});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {c.px(8), 0});
  ImGui::Begin(
      "##centre", nullptr,
      ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
          // The surface is paper already: filling it again is what a software renderer pays for.
          ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoBringToFrontOnFocus |
          ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar();
  if (content.notice) content.notice(c, area.width);
  // A click beside a drawer puts it away.
  if (drawer_ != Panel::none && ImGui::IsMouseClicked(0) &&
      ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem))
    drawer_ = Panel::none;
  if (trace_is_open_ || c.results.evaluation()) {
    const float width = area.width - c.px(16);
    draw_tabs(c, width);
    draw_tiles(c, tiles, width, area.height - ImGui::GetCursorPosY() - c.px(8));
  } else if (content.empty) {
    content.empty(c);
  }
  ImGui::End();
}

/// Where not all tiles are in sight: their names, and which are.
void Stage::draw_tabs(const PanelContext& c, float width) {
  tab_items_.clear();
  const auto count = static_cast<std::size_t>(c.state.tile_count);
  if (layout_.count >= count) return;
  const float spacing = ImGui::GetStyle().ItemSpacing.x;
  const float padding = ImGui::GetStyle().FramePadding.x;
  const float height = c.px(32);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float most = (width - spacing * static_cast<float>(count - 1)) / static_cast<float>(count);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImGui::PushFont(c.fonts.secondary);
  float x = corner.x;
  for (std::size_t i = 0; i < count; ++i) {
    const figure::FigureInfo* view = find_view(c.state.tiles[i].view);
    const std::string whole = fmt::format("{}  {}", i + 1, view ? view->title : "");
    constexpr double kTextSize = 13.0;
    const std::string title =
        c.metrics.fit(whole, figure::Font::regular, kTextSize,
                      static_cast<double>((most - 2 * padding) / c.fonts.scale()));
    const float room = std::min(most, ImGui::CalcTextSize(title.c_str()).x + 2 * padding);
    const bool in_sight = i >= layout_.first && i < layout_.first + layout_.count;
    ImGui::SetCursorScreenPos({x, corner.y + (height - ImGui::GetFrameHeight()) / 2});
    ImGui::PushStyleColor(ImGuiCol_Button, 0);
    ImGui::PushStyleColor(ImGuiCol_Text, in_sight ? c.colours().ink : c.colours().secondary);
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::Button((title + "###tab").c_str(), {room, 0}))
      c.state.active_tile = static_cast<int>(i);
    ImGui::PopID();
    ImGui::PopStyleColor(2);
    help_tooltip(
        c.fonts,
        whole + (in_sight ? "" : "\nHidden, because there is no room for all views. Click, or W"));
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 high = ImGui::GetItemRectMax();
    tab_items_.push_back({static_cast<double>(low.x), static_cast<double>(low.y),
                          static_cast<double>(high.x - low.x),
                          static_cast<double>(high.y - low.y)});
    if (in_sight) list.AddRectFilled({low.x, high.y - c.px(2)}, {high.x, high.y}, c.colours().ink);
    x += room + spacing;
  }
  ImGui::PopFont();
  ImGui::SetCursorScreenPos({corner.x, corner.y + height});
}

void Stage::draw_tiles(const PanelContext& c, std::span<Tile> tiles, float width, float height) {
  const std::vector<TileNeed> needs = tile_needs(c, tiles);
  const auto shown = std::span(needs).subspan(layout_.first, layout_.count);
  const std::vector<figure::Rect> places =
      arrange_tiles(shown, static_cast<double>(width), static_cast<double>(height),
                    static_cast<double>(c.px(16)),
                    static_cast<double>(Tile::header_height(c.fonts)))
          .places;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const int active_before = c.state.active_tile;
  figure::Selection selection = c.state.selection;
  for (std::size_t nth = 0; nth < layout_.count; ++nth) {
    const std::size_t at = layout_.first + nth;
    const auto i = static_cast<int>(at);
    const figure::Rect& place = places[nth];
    ImGui::SetCursorScreenPos({corner.x + pixels(place.x), corner.y + pixels(place.y)});
    ImGui::PushID(i);
    if (tiles[at].draw(c.state.tiles[at], {c, selection, at},
                       {pixels(place.width), pixels(place.height)},
                       layout_.count == 1 || i == active_before)) {
      c.state.active_tile = i;
    }
    ImGui::PopID();
  }
  c.state.selection = selection;
}

}  // namespace kvloupe::window
