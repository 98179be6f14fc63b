#include "app/window/tiles/stage.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "app/figure/panel_figure.h"
#include "app/session/view_catalog.h"
#include "app/window/state/layouts.h"
#include "app/window/tiles/state_range.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

constexpr float kRail = 28.0F;  // units: width of what is left of a folded side panel
constexpr int kPanelFlags = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                            ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoCollapse |
                            ImGuiWindowFlags_NoBringToFrontOnFocus |
                            // They appear when a file has been read, perhaps while a name is typed.
                            ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoSavedSettings |
                            ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;

// Limits of the panels' sizes, in units or as a share of the window.
constexpr float kLeastLeft = 160.0F, kLeastRight = 200.0F, kLeastBottom = 112.0F;
constexpr float kMostOfWidth = 0.45F, kMostOfHeight = 0.8F;
constexpr float kLow = 800.0F, kMostOfLow = 1.0F / 3;  // in a low window pictures come first
constexpr float kBorder = 6.0F;                        // units: how near the pointer takes a border

/// Sizes that leave enough room for the picture in a small window.
StageSizes least_sizes(const PanelContext& c, float width, float height) {
  const auto whole = [](float pixels) { return static_cast<double>(std::floor(pixels)); };
  StageSizes sizes;
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

float pixels(double size) { return static_cast<float>(size); }

double& chosen_size(ChosenSizes& sizes, Panel panel) {
  return panel == Panel::left ? sizes.left : panel == Panel::right ? sizes.right : sizes.bottom;
}

/// The line along a border under the pointer or the hand; else a short one that says that it can be
/// taken.
void draw_border_mark(const PanelContext& c, ImVec2 low, ImVec2 high, bool strong) {
  const bool upright = high.y - low.y > high.x - low.x;
  const ImVec2 middle{std::floor((low.x + high.x) / 2), std::floor((low.y + high.y) / 2)};
  const float half = c.px(strong ? 10'000 : 12);
  const float thick = c.px(1);
  ImVec2 a = upright ? ImVec2{middle.x - thick, std::max(low.y, middle.y - half)}
                     : ImVec2{std::max(low.x, middle.x - half), middle.y - thick};
  ImVec2 b = upright ? ImVec2{middle.x + thick, std::min(high.y, middle.y + half)}
                     : ImVec2{std::min(high.x, middle.x + half), middle.y + thick};
  ImGui::GetWindowDrawList()->AddRectFilled(a, b,
                                            strong ? c.colours().selection : c.colours().faint);
}

}  // namespace

/// The needs of the tiles shown.
std::vector<TileNeed> Stage::tile_needs(const PanelContext& c, std::span<const Tile> tiles) const {
  const auto count = static_cast<std::size_t>(c.state.tile_count);
  const auto shares = chosen.tiles.find(c.state.tile_count);
  std::vector<TileNeed> needs;
  for (std::size_t i = 0; i < count; ++i) {
    needs.push_back(
        tiles[i].need(c.state.tiles[i], c.metrics, static_cast<double>(c.fonts.scale())));
    if (shares != chosen.tiles.end() && shares->second.size() == count)
      needs.back().share = shares->second[i];
  }
  return needs;
}

/// The sizes of the panels, chosen by hand or by the window; lays the stage out.
StageSizes Stage::fitted_sizes(const PanelContext& c, std::span<const TileNeed> needs,
                               Panels wanted, float width, float height) {
  StageSizes least = least_sizes(c, width, height);
  StageSizes sizes = least;
  // In a high window the text gets more than its fifth: pictures are large enough there.
  constexpr float kHigh = 1000.0F, kShareAbove = 0.4F, kMostUnasked = 360.0F;
  const float more = kShareAbove * std::max(0.0F, height - c.px(kHigh));
  sizes.bottom =
      std::max(sizes.bottom, std::min(sizes.bottom + std::floor(static_cast<double>(more)),
                                      std::floor(static_cast<double>(c.px(kMostUnasked)))));
  const auto take = [&](double StageSizes::*size, double share, float low, float whole,
                        float most) {
    if (share <= 0.0) return;
    const float wish = static_cast<float>(share) * whole, high = most * whole;
    sizes.*size =
        std::round(static_cast<double>(std::clamp(wish, c.px(low), std::max(c.px(low), high))));
    least.*size = std::min(least.*size, sizes.*size);
  };
  take(&StageSizes::left, chosen.left, kLeastLeft, width, kMostOfWidth);
  take(&StageSizes::right, chosen.right, kLeastRight, width, kMostOfWidth);
  take(&StageSizes::bottom, chosen.bottom, kLeastBottom, height,
       height < c.px(kLow) ? kMostOfLow : kMostOfHeight);
  // The one in hand gives way to the others.
  std::vector<double StageSizes::*> order = {&StageSizes::left, &StageSizes::right,
                                             &StageSizes::bottom};
  const auto in_hand = dragged_.panel == Panel::left    ? order.begin()
                       : dragged_.panel == Panel::right ? order.begin() + 1
                                                        : order.begin() + 2;
  std::rotate(in_hand, in_hand + 1, order.end());
  layout_ =
      lay_out_stage_with(needs, static_cast<std::size_t>(c.state.active_tile), wanted, least, sizes,
                         order, static_cast<double>(width), static_cast<double>(height));
  // At its limit a border stays there, and does not wait for a pointer that has gone further.
  if (dragged_.moved && dragged_.panel != Panel::none) {
    const double size = dragged_.panel == Panel::left    ? sizes.left
                        : dragged_.panel == Panel::right ? sizes.right
                                                         : sizes.bottom;
    chosen_size(chosen, dragged_.panel) =
        size / static_cast<double>(dragged_.panel == Panel::bottom ? height : width);
  }
  return sizes;
}

void Stage::follow_drag(const PanelContext& c, float width, float top, float height) {
  if (!is_dragging()) return;
  if (!ImGui::IsMouseDown(0)) {
    dragged_ = {};
    rows_.reset();
    return;
  }
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float at = dragged_.panel == Panel::bottom ? mouse.y : mouse.x;
  dragged_.moved = dragged_.moved || std::abs(at - dragged_.from) >= 1.0F;
  if (!dragged_.moved) return;
  if (dragged_.tile >= 0) return drag_tiles(c);
  const float border = at + dragged_.offset;
  const float size = dragged_.panel == Panel::left    ? border
                     : dragged_.panel == Panel::right ? width - border
                                                      : top + height - border;
  chosen_size(chosen, dragged_.panel) = static_cast<double>(
      std::clamp(size / (dragged_.panel == Panel::bottom ? height : width), 0.001F, 1.0F));
}

void Stage::draw_border(const PanelContext& c, Panel panel, const Area& area) {
  const float thick = c.px(kBorder);
  const ImVec2 low{panel == Panel::left ? area.x + area.width - thick : area.x, area.y};
  const ImVec2 size =
      panel == Panel::bottom ? ImVec2{area.width, thick} : ImVec2{thick, area.height};
  const ImVec2 high{low.x + size.x, low.y + size.y};
  // It lies in the window's padding, where nothing else is drawn.
  ImGui::PushClipRect(low, high, false);
  // To the arrows it is a small thing above the controls: beside them all it would be in their way.
  const ImRect place(low, high), for_arrows(low, {low.x + thick, low.y + thick});
  const ImGuiID id = ImGui::GetCurrentWindow()->GetID("##border");
  bool over = false, held = false;
  const bool pressed =
      ImGui::ItemAdd(place, id, &for_arrows) && ImGui::ButtonBehavior(place, id, &over, &held);
  const ImGuiContext& gui = *ImGui::GetCurrentContext();
  const bool has_keyboard = gui.NavId == id && !gui.NavDisableHighlight;
  const bool in_hand = dragged_.panel == panel;
  if (ImGui::IsItemHovered() || in_hand) {
    ImGui::SetMouseCursor(panel == Panel::bottom ? ImGuiMouseCursor_ResizeNS
                                                 : ImGuiMouseCursor_ResizeEW);
  }
  if (!in_hand) {
    help_tooltip(
        c.fonts,
        "Drag: size of the panel. Double-click: the usual size. Space: as large as there is "
        "room, or the usual size");
  }
  draw_border_mark(c, low, high, in_hand || has_keyboard || ImGui::IsItemHovered());
  ImGui::PopClipRect();
  double& size_chosen = chosen_size(chosen, panel);
  const bool by_mouse = ImGui::IsMouseDown(0) || ImGui::IsMouseReleased(0);
  if (ImGui::IsItemActivated() && by_mouse) {
    if (ImGui::IsMouseDoubleClicked(0)) {
      size_chosen = 0.0;
      return;
    }
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    const float at = panel == Panel::bottom ? mouse.y : mouse.x;
    const float border = panel == Panel::left    ? area.x + area.width
                         : panel == Panel::right ? area.x
                                                 : area.y;
    dragged_ = {.panel = panel, .from = at, .offset = border - at};
    rows_ = drawn_rows_;
  } else if (pressed && !by_mouse) {
    size_chosen = size_chosen > 0.0 ? 0.0 : 1.0;
  }
}

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
  // A rail is narrower than what ImGui takes for the least width of a window at large scales.
  ImGui::PushStyleVar(ImGuiStyleVar_WindowMinSize, {1, 1});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, context.colours().panel);
  const PanelContext own = panel_context(context, panel);
  const bool visible =
      ImGui::Begin(name, nullptr, kPanelFlags | (own.keyboard ? 0 : ImGuiWindowFlags_NoNavInputs));
  ImGui::PopStyleColor();
  ImGui::PopStyleVar(2);
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
  follow_drag(c, screen.x, top, height);
  const std::vector<TileNeed> needs = tile_needs(c, tiles);
  const StageSizes sizes = fitted_sizes(c, needs, wanted, screen.x, height);
  if (!is_folded(drawer_, state)) drawer_ = Panel::none;
  const float left = pixels(layout_.centre.x);
  const float centre = pixels(layout_.centre.width);
  const float right = screen.x - left - centre;
  float bottom = height - pixels(layout_.centre.height);
  const bool all = layout_.count == needs.size();
  if (layout_.open.bottom && !content.notice && all && chosen.bottom <= 0.0) {
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
    const Area area{0, top, left, side_height};
    draw_panel(c, "##left", Panel::left, area, [&](const PanelContext& own) {
      content.left(own);
      draw_border(own, Panel::left, area);
    });
  } else if (wanted.left) {
    draw_side_rail(c, "Trace and heads", Panel::left, {0, top, c.px(kRail), side_height});
  }
  if (layout_.open.right) {
    const Area area{screen.x - right, top, right, side_height};
    draw_panel(c, "##right", Panel::right, area, [&](const PanelContext& own) {
      content.right(own);
      draw_border(own, Panel::right, area);
    });
  } else if (wanted.right) {
    draw_side_rail(c, "Budget and policies", Panel::right,
                   {screen.x - right, top, c.px(kRail), side_height});
  }
  const Area below{0, screen.y - bottom, screen.x, bottom};
  if (layout_.open.bottom) {
    draw_panel(c, "##bottom", Panel::bottom, below, [&](const PanelContext& own) {
      content.bottom(own);
      draw_border(own, Panel::bottom, below);
    });
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
  const float text = std::min(std::max(context.px(160), std::floor(height * 0.5F)), height);
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
          // The surface is paper already: filling it again is expensive for a software renderer.
          ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoBringToFrontOnFocus |
          ImGuiWindowFlags_NoFocusOnAppearing | ImGuiWindowFlags_NoNav |
          ImGuiWindowFlags_NoScrollWithMouse);
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

/// The names of the tiles, and which are in sight; drawn only if not all are.
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

/// Colours and axes of values mean the same in the two pictures of a pinned and a selected head.
void Stage::share_limits(const PanelContext& c, std::span<Tile> tiles) {
  const bool is_pair = c.state.tile_count == 2 && pinned_tile(c.state) != nullptr;
  OwnLimits both;
  std::vector<figure::PanelLimits> panels;
  if (is_pair) {
    const OwnLimits a = tiles[0].own_limits(c.metrics), b = tiles[1].own_limits(c.metrics);
    const auto around = [](const auto& one, const auto& other) {
      using Range = std::optional<std::pair<double, double>>;
      if (!one || !other) return Range();
      const auto [low, high] = std::minmax({one->first, one->second, other->first, other->second});
      return one->first <= one->second ? Range({low, high}) : Range({high, low});
    };
    both = {around(a.colours, b.colours), around(a.x, b.x), around(a.y, b.y), {}};
    panels = figure::shared_limits(a.panels, b.panels);
  }
  for (Tile& tile : tiles) tile.share_limits(both, panels);
}

void Stage::draw_tiles(const PanelContext& c, std::span<Tile> tiles, float width, float height) {
  const std::vector<TileNeed> needs = tile_needs(c, tiles);
  const auto shown = std::span(needs).subspan(layout_.first, layout_.count);
  const TileArrangement arranged = arrange_tiles(
      shown, static_cast<double>(width), static_cast<double>(height), static_cast<double>(c.px(16)),
      static_cast<double>(Tile::header_height(c.fonts)), rows_);
  const std::vector<figure::Rect>& places = arranged.places;
  drawn_rows_ = arranged.breaks;
  if (rows_) rows_ = arranged.breaks;  // until there is no room for it
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  share_limits(c, tiles);
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
  draw_tile_borders(c, shown, places, corner);
}

/// Between tiles that stand side by side.
void Stage::draw_tile_borders(const PanelContext& c, std::span<const TileNeed> needs,
                              std::span<const figure::Rect> places, ImVec2 corner) {
  for (std::size_t nth = 0; nth + 1 < places.size(); ++nth) {
    const figure::Rect& a = places[nth];
    const figure::Rect& b = places[nth + 1];
    if (a.y != b.y) continue;
    const int tile = static_cast<int>(layout_.first + nth);
    const ImVec2 low{corner.x + pixels(a.right()), corner.y + pixels(a.y)};
    const ImVec2 size{pixels(b.x - a.right()), pixels(a.height)};
    ImGui::SetCursorScreenPos(low);
    ImGui::PushID(tile);
    ImGui::InvisibleButton("##tile-border", size);
    ImGui::PopID();
    const bool in_hand = dragged_.tile == tile;
    const bool over = ImGui::IsItemHovered();
    if (over || in_hand) {
      ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
      draw_border_mark(c, low, {low.x + size.x, low.y + size.y}, true);
    }
    if (!in_hand) help_tooltip(c.fonts, "Drag: width of the views. Double-click: the usual widths");
    if (!ImGui::IsItemActivated()) continue;
    if (ImGui::IsMouseDoubleClicked(0)) {
      chosen.tiles.erase(c.state.tile_count);
      continue;
    }
    const float at = ImGui::GetIO().MousePos.x;
    dragged_ = {.tile = tile, .from = at, .offset = low.x - at};
    rows_ = drawn_rows_;
    dragged_row_ = {};
    dragged_row_.left = static_cast<double>(corner.x) + a.x;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].y != a.y) continue;
      dragged_row_.tiles.push_back(static_cast<int>(layout_.first + i));
      dragged_row_.widths.push_back(places[i].width);
      dragged_row_.least.push_back(needs[i].least_width);
    }
  }
}

void Stage::drag_tiles(const PanelContext& c) {
  const auto found = std::find(dragged_row_.tiles.begin(), dragged_row_.tiles.end(), dragged_.tile);
  const auto at = static_cast<std::size_t>(found - dragged_row_.tiles.begin());
  if (at + 1 >= dragged_row_.tiles.size()) return;
  std::vector<double> widths = dragged_row_.widths;
  const double both = widths[at] + widths[at + 1];
  const double most = both - dragged_row_.least[at + 1];
  const double wish = std::round(static_cast<double>(ImGui::GetIO().MousePos.x + dragged_.offset)) -
                      dragged_row_.left;
  widths[at] = std::clamp(wish, std::min(dragged_row_.least[at], most), most);
  widths[at + 1] = both - widths[at];
  double all = 0.0;
  for (const double width : widths) all += width;
  std::vector<double>& shares = chosen.tiles[c.state.tile_count];
  shares.resize(static_cast<std::size_t>(c.state.tile_count), 0.0);
  for (std::size_t i = 0; i < widths.size(); ++i)
    shares[static_cast<std::size_t>(dragged_row_.tiles[i])] = widths[i] / all;
}

}  // namespace kvloupe::window
