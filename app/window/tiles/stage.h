#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "app/scene/scene.h"
#include "app/window/state/panel_context.h"
#include "app/window/state/preferences.h"
#include "app/window/tiles/tile.h"
#include "app/window/tiles/tile_layout.h"

namespace kvloupe::window {

/// The panels around the tiles, in the order in which the keyboard visits them.
enum class Panel { none, left, right, bottom, lesson };

/// The panels around the tiles. Each function draws into the current ImGui window.
struct StageContent {
  using Draw = std::function<void(const PanelContext&)>;
  Draw left, right, bottom, lesson;
  float lesson_width = 0.0F;  // pixels; 0: there is no lesson
  /// The folded bottom panel: one line, which leaves `kept_right` pixels free at its right end; and
  /// the panel drawn over the tiles when it is opened.
  std::function<void(const PanelContext&, float kept_right)> bottom_line;
  Draw bottom_drawer;
  std::function<void(const PanelContext&, float width)> notice;  // above the tiles; empty: none
  Draw empty;  // in place of the tiles where nothing is open; may be empty
};

/// The arrangement of panels and tiles: which panels fold in little room, which one is open over
/// the tiles, and in which one the keyboard moves among the controls.
class Stage {
 public:
  void draw(const PanelContext& context, std::span<Tile> tiles, const StageContent& content);
  /// A tile is drawn alone, and not by the stage.
  void show_alone(int tile);

  /// Shows or puts away a panel; of a folded one, its drawing over the tiles.
  void toggle(Panel panel, WorkspaceState& state);
  /// Shows a panel that may be folded.
  void reveal(Panel panel, WorkspaceState& state);
  /// The keyboard moves among the controls of the next panel; after the last, in the tiles.
  void take_keyboard_to_next_panel(bool lesson_is_open, const WorkspaceState& state);
  bool keyboard_is_in_panel() const { return keyboard_panel_ != Panel::none; }
  /// The action of Esc: the keyboard goes back to the tiles, and an open folded panel closes.
  /// False: nothing to do.
  bool close_topmost();
  void close_drawer() { keyboard_panel_ = drawer_ = Panel::none; }

  /// The sizes chosen by dragging the borders of panels and tiles.
  ChosenSizes chosen;

  /// The visible panels and tiles, as drawn last.
  const StageLayout& layout() const { return layout_; }
  /// The places of the tiles' names in their line, in pixels; empty if all tiles are in sight.
  const std::vector<figure::Rect>& tab_items() const { return tab_items_; }
  /// The folded panel that is open over the tiles.
  Panel drawer() const { return drawer_; }

 private:
  struct Area {
    float x, y, width, height;  // pixels
  };
  /// A border under the hand: of a panel, or between two tiles of a row.
  struct Dragged {
    Panel panel = Panel::none;
    int tile = -1;        // the one left of the border; −1: none
    float from = 0.0F;    // where the pointer took it
    float offset = 0.0F;  // from the pointer to the border
    bool moved = false;
  };
  bool is_dragging() const { return dragged_.panel != Panel::none || dragged_.tile >= 0; }
  /// Moves the dragged border as the pointer moved since the last frame.
  void follow_drag(const PanelContext& context, float width, float top, float height);
  StageSizes fitted_sizes(const PanelContext& context, std::span<const TileNeed> needs,
                          Panels wanted, float width, float height);
  /// The border of a panel, in its ImGui window.
  void draw_border(const PanelContext& context, Panel panel, const Area& area);
  void draw_tile_borders(const PanelContext& context, std::span<const TileNeed> needs,
                         std::span<const figure::Rect> places, ImVec2 corner);
  void drag_tiles(const PanelContext& context);
  std::vector<TileNeed> tile_needs(const PanelContext& context, std::span<const Tile> tiles) const;
  bool is_folded(Panel panel, const WorkspaceState& state) const;
  /// The context of a panel whose ImGui window begins with the next call of Begin.
  PanelContext panel_context(const PanelContext& context, Panel panel);
  void draw_panel(const PanelContext& context, const char* name, Panel panel, const Area& area,
                  const StageContent::Draw& draw, bool padded = true);
  /// The rail of a folded panel, which opens the panel over the tiles.
  void draw_side_rail(const PanelContext& context, const char* title, Panel panel,
                      const Area& area);
  void draw_bottom_rail(const PanelContext& context, const StageContent& content, const Area& area);
  /// A folded panel, over the tiles: these and the side panels have `room` in width.
  void draw_drawer(const PanelContext& context, const StageContent& content, float room, float top,
                   float height);
  void draw_centre(const PanelContext& context, std::span<Tile> tiles, const StageContent& content,
                   const Area& area);
  void draw_tabs(const PanelContext& context, float width);
  static void share_limits(const PanelContext& context, std::span<Tile> tiles);
  void draw_tiles(const PanelContext& context, std::span<Tile> tiles, float width, float height);

  StageLayout layout_;
  bool trace_is_open_ = false;  // in this frame
  std::vector<figure::Rect> tab_items_;
  Panel drawer_ = Panel::none;
  bool focus_drawer_ = false;
  Panel keyboard_panel_ = Panel::none;
  bool focus_keyboard_panel_ = false;
  Dragged dragged_;
  std::optional<unsigned> rows_;  // of the tiles while a border is dragged
  unsigned drawn_rows_ = 0;
  // The row of the border between tiles, when the hand took it: places and least widths, in pixels.
  struct DraggedRow {
    std::vector<int> tiles;
    std::vector<double> widths, least;
    double left = 0.0;  // of the tile left of the border
  } dragged_row_;
};

}  // namespace kvloupe::window
