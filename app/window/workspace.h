#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/scene/imgui_backend.h"
#include "app/scene/text_metrics.h"
#include "app/session/head_grid.h"
#include "app/session/state.h"
#include "app/window/capture_panel.h"
#include "app/window/command_palette.h"
#include "app/window/commands.h"
#include "app/window/export_panel.h"
#include "app/window/file_panel.h"
#include "app/window/fonts.h"
#include "app/window/known_models.h"
#include "app/window/lesson_player.h"
#include "app/window/policy_editor.h"
#include "app/window/policy_history.h"
#include "app/window/preferences.h"
#include "app/window/recent_files.h"
#include "app/window/results.h"
#include "app/window/start_page.h"
#include "app/window/step_measures.h"
#include "app/window/step_tokens.h"
#include "app/window/tile.h"
#include "app/window/tile_layout.h"
#include "app/window/token_card.h"
#include "app/window/token_text.h"

namespace kvloupe::window {

/// The whole window's content: its state, what is computed from it, and its panels. Knows ImGui,
/// but neither the screen nor the keyboard: a surface (or a test) gives frames and input.
class Workspace {
 public:
  /// What the workspace needs from around it.
  struct Host {
    std::function<void()> wake = [] {};   // any thread
    std::function<void()> close = [] {};  // quit
    std::function<void(const std::string&)> set_title = [](const auto&) {};
    std::filesystem::path recent_files = {};  // where that list is kept; empty: nowhere
    std::filesystem::path preferences = {};   // the same
    std::filesystem::path models = {};        // which folder holds which model; the same
    demo::DemoPlaces demo = {};               // where the demo's model and traces are
  };
  explicit Workspace(Host host);
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Opens a trace (or, by its suffix .json, a session) in the background.
  void open(const std::string& path);
  /// Throws FileError; the state stays as it was.
  void open_session(const std::string& path);
  /// Shows a trace that is open already. `head` is selected first; without one, one in the middle
  /// of the model.
  void show(const TracePointer& trace, std::optional<HeadIndex> head = std::nullopt);
  /// Takes over a session's state, with its trace or, where that is open already, the one given.
  void restore(WorkspaceState restored, const TracePointer& trace = nullptr);
  void save_session(const std::string& path) const;
  /// A lesson of those that come with the program, on its own trace.
  void open_lesson(const std::string& name);
  /// Shows another view of the open trace: a state whose selection is in its range.
  void take_view(WorkspaceState view);
  /// Whether the state is that of the open trace; in the first frame with it, it is not yet.
  bool shows_open_trace() const { return shown_trace_ == results.trace_key(); }

  /// Rebuilds the fonts if need be. True if the host has to upload them. Outside a frame.
  bool prepare_fonts(float display_scale);
  /// Draws one frame and reacts to its input.
  void frame();
  void perform(Command command);
  /// Shows another view in the active tile.
  void show_view(const std::string& name);

  /// Nothing computes, and what is shown belongs to the state.
  bool settled() const;
  /// The next frame is wanted at once (play, a transition).
  bool animating() const { return playing; }
  /// True in the frame after something changed that the last frame could not show yet.
  bool wants_frame() const { return frames_wanted_ > 0; }

  WorkspaceState state;
  Fonts fonts;
  figure::TextMetrics metrics;
  Results results;  // its jobs draw with the metrics: these outlive it
  StepMeasures measures;
  figure::ImguiBackend backend{metrics};
  std::array<Tile, kMaxTiles> tiles;
  PolicyEditor editor_a{"A"};
  PolicyEditor editor_b{"B"};
  FilePanel file_panel;
  ExportPanel export_panel;
  CapturePanel capture_panel;
  StartPage start_page;
  LessonPlayer lessons;
  bool lesson_folded = false;
  CommandPalette palette;
  TokenCard token_card;
  PolicyHistory history;
  RecentFiles recent;
  KnownModels models;
  TokenText token_text;

  Hover hover;    // found in this frame
  Hover hovered;  // of the frame before: what is marked
  bool playing = false;
  std::string notice;  // one line about what just failed or was done; empty: none
  bool notice_is_error = false;

  void fail(const std::string& line);
  void tell(const std::string& line);

  /// The step shown: the selected one, else the last of the prompt; 0 without a trace.
  int step() const;
  int step_count() const { return static_cast<int>(blocks.size()); }
  std::vector<Block> blocks;  // of the replay
  GridValues grid;
  /// The results of the selected head, as far as they are there; else nullptr.
  const Replay* replay_a() const { return focus_a_.get(); }
  const HeadReplay* head_a() const;
  const HeadReplay* head_b() const;
  /// What has become of every token under policy A; nullptr until that is known.
  const StepTokens* tokens_a() const {
    return step_tokens_[0].states.empty() ? nullptr : &step_tokens_[0];
  }
  /// The same under policy B; nullptr, too, where that is off.
  const StepTokens* tokens_b() const {
    return step_tokens_[1].states.empty() ? nullptr : &step_tokens_[1];
  }
  /// True while the panel being drawn is the one the keyboard moves in.
  bool keyboard_moves_in_panel() const { return drawing_keyboard_panel_; }
  bool help_is_open() const { return help_open_; }

  /// What of the panels and tiles is in sight, as drawn last.
  const StageLayout& stage() const { return stage_; }
  /// Where the line that names the tiles has them, in pixels; empty where all are in sight.
  const std::vector<figure::Rect>& tab_items() const { return tab_items_; }
  /// One view alone, large (F5).
  bool presenting() const { return presenting_; }
  /// The folded panel that is open over the tiles: 1, 2, 3 as keyboard_panel_; 0: none.
  int drawer() const { return drawer_; }

  float px(float units) const { return units * fonts.scale(); }
  const Palette& colours() const { return window::palette(state.theme); }

 private:
  void keep_in_range();
  void follow_results();
  void follow_evaluation();
  void follow_grid(int step);
  void follow_measured_grid(const Measure& measure, int step);
  void follow_head_measures(const PolicyResults& policy, int which, int step);
  void follow_tokens(const PolicyResults& policy, int which, int step);
  void follow_preferences();
  bool close_topmost();
  bool sheet_is_open() const;
  void handle_keys();
  void play_on();
  void change_budget(double factor);
  void draw_panels();
  bool begin_panel(const char* name, int number, float x, float y, float width, float height);
  /// What is left of a panel that gave way: opens it over the tiles.
  void draw_side_rail(const char* title, int number, float x, float y, float height);
  void draw_bottom_rail(float y, float width, float height);
  /// A folded panel, over the tiles: these and the side panels have `room` in width.
  void draw_drawer(float room, float top, float height);
  void draw_tabs(float width);
  bool is_folded(int panel) const;
  /// Shows or puts away a panel; of a folded one, what is drawn over the tiles.
  void toggle_panel(int panel);
  StageSizes stage_sizes(float width, float height) const;
  void draw_centre(float x, float y, float width, float height);
  void draw_tiles(float width, float height);
  void draw_files();
  /// What the tiles shown ask for.
  std::vector<TileNeed> tile_needs() const;

  Host host_;
  bool help_open_ = false;
  /// 0: none; 1, 2, 3, 4: the left, right, bottom, lesson's panel, among whose controls the
  /// keyboard moves.
  int keyboard_panel_ = 0;
  bool focus_keyboard_panel_ = false;
  bool drawing_keyboard_panel_ = false;
  StepTokens step_tokens_[2];  // under A, under B
  std::string step_tokens_key_[2];
  Preferences preferences_;
  double next_step_at_ = 0.0;
  std::string open_files() const;

  bool presenting_ = false;
  StageLayout stage_;
  std::vector<figure::Rect> tab_items_;
  int drawer_ = 0;
  bool focus_drawer_ = false;

  int frames_wanted_ = 2;
  std::string drawn_files_;  // as open_files() said when the last frame began
  std::string shown_trace_;
  std::string shown_error_;
  std::string shown_evaluation_, shown_evaluation_error_;
  std::string fonts_for_;
  bool opening_session_ = false;
  std::optional<HeadIndex> first_head_;  // to select when the trace asked for is there
  std::string grid_key_;
  std::string grid_of_;                              // trace, metric and step the grid belongs to
  std::shared_ptr<const GridValues> measured_grid_;  // what the grid was made of
  bool measures_wait_ = false;                       // for a replay
  std::shared_ptr<const Replay> focus_a_, focus_b_, all_a_, all_b_;  // of this frame
};

}  // namespace kvloupe::window
