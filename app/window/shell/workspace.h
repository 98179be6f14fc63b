#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/scene/imgui_backend.h"
#include "app/scene/text_metrics.h"
#include "app/session/state.h"
#include "app/window/cards/cause_card.h"
#include "app/window/cards/token_card.h"
#include "app/window/panels/panels.h"
#include "app/window/sheets/cache_sheet.h"
#include "app/window/sheets/capture_panel.h"
#include "app/window/sheets/command_palette.h"
#include "app/window/sheets/export_panel.h"
#include "app/window/sheets/file_panel.h"
#include "app/window/sheets/head_table.h"
#include "app/window/sheets/help_sheet.h"
#include "app/window/sheets/start_page.h"
#include "app/window/sheets/study_panel.h"
#include "app/window/state/jobs.h"
#include "app/window/state/known_models.h"
#include "app/window/state/layouts.h"
#include "app/window/state/lesson_player.h"
#include "app/window/state/policy_choice.h"
#include "app/window/state/preferences.h"
#include "app/window/state/recent_files.h"
#include "app/window/state/results.h"
#include "app/window/state/shown_results.h"
#include "app/window/tiles/stage.h"
#include "app/window/tiles/tile.h"
#include "app/window/widgets/commands.h"
#include "app/window/widgets/fonts.h"

namespace kvloupe::window {

/// The sheets, which lie over the panels and tiles when open.
struct Sheets {
  Sheets(const std::function<void()>& wake, KnownModels& models, const demo::DemoPlaces& demo)
      : file_panel(wake),
        capture_panel(wake, models, demo.cache),
        study_panel(wake, models, demo.cache),
        cause_card(models, demo.cache, demo.program, wake),
        cache(demo.cache, wake) {}

  CommandPalette palette;
  HelpSheet help;
  HeadTable head_table;
  FilePanel file_panel;
  ExportPanel export_panel;
  CapturePanel capture_panel;
  StudyPanel study_panel;
  TokenCard token_card;
  CauseCard cause_card;
  CacheSheet cache;
};

/// The whole window's content: the state, the results computed from it, and the panels. It opens
/// files, passes keys and menus to the responsible part, and draws the parts in their order. Knows
/// ImGui, but neither the screen nor the keyboard: a surface (or a test) gives frames and input.
class Workspace {
 public:
  /// The services that the workspace needs from its surroundings.
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
  /// The version, and where the documentation is; that place goes into the clipboard, too.
  void tell_about();
  /// Puts files beside the one that is opened into the list of recent ones, and says so.
  void set_aside(const std::vector<std::string>& paths);
  /// Throws FileError where the session cannot be read. The state stays as it was until the
  /// session's trace is there.
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

  /// Rebuilds the fonts if need be. True if the host has to upload them. Outside a frame.
  bool prepare_fonts(float display_scale);
  /// Draws one frame and reacts to its input.
  void frame();
  void perform(Command command);

  /// Nothing computes, and the picture belongs to the state.
  bool settled() const;
  /// The next frame is wanted at once (play, a transition).
  bool animating() const { return playing; }
  /// True in the frame after something changed that the last frame could not show yet.
  bool wants_frame() const { return frames_wanted_ > 0; }

  WorkspaceState state;
  Fonts fonts;
  figure::TextMetrics metrics;
  Results results;     // its jobs draw with the metrics: these outlive it
  ShownResults shown;  // what is known for the state
  figure::ImguiBackend backend{metrics};
  std::array<Tile, kMaxTiles> tiles;
  Tile grid;  // layers × heads, in the left panel
  KnownModels models;
  Sheets sheets;
  StartPage start_page;
  LessonPlayer lessons;
  PolicyEditors editors;
  bool lesson_folded = false;
  bool playing = false;
  bool reduced_motion = false;  // nothing moves by itself: "play" goes one step on
  std::string notice;           // one line about what just failed or was done; empty: none
  bool notice_is_error = false;

  /// Whether the window may close: the first time it is asked while something runs that takes
  /// long, it says what would end, and the second time it may.
  bool may_quit();

  void fail(const std::string& line);
  void tell(const std::string& line);

  const Stage& stage() const { return stage_; }
  const TextPanel& text_panel() const { return text_panel_; }
  /// The item marked in this frame: the one under the pointer in the frame before.
  const Hover& hovered() const { return hovered_; }
  /// One view alone, large (F5).
  bool presenting() const { return presenting_; }
  /// The context from which panels draw in this frame.
  PanelContext context();
  PaletteSources palette_sources(const PanelContext& context);
  /// Every command, in the order of the help sheet.
  static std::span<const CommandRow> commands();

 private:
  /// Something that Esc closes: the first of sheets_ that is open.
  struct Sheet {
    std::function<bool()> is_open;
    std::function<void()> close;
    std::function<void(const PanelContext&)> draw = {};  // empty: drawn elsewhere
    bool has_keyboard = false;  // then only its own keys, help and quit are read
  };
  std::vector<Sheet> all_sheets();
  void follow_results();
  void follow_new_trace(const Trace& trace);
  void take_policy_of(const RunInfo& run);
  std::string ended_by_quitting() const;
  void follow_evaluation();
  void follow_preferences();
  bool is_possible(const CommandRow& row) const;
  Tile& tile() { return tiles[static_cast<std::size_t>(state.active_tile)]; }
  void perform(const Action& action);
  void explain(const ExplainRun& asked);
  void do_what_was_asked();
  void next_view(int by);
  void next_tile(int by);
  void next_page();
  void find_again(int by);
  void play();
  void pin_or_unpin();
  void choose_file(FilePanel::Purpose purpose);
  void take_chosen_file();
  void close_topmost();
  /// One that takes all keys is open.
  bool sheet_has_keyboard() const;
  void handle_keys();
  void play_on();
  void draw_content();
  void draw_menu(const PanelContext& context);
  void draw_commands(const PanelContext& context, Menu menu);
  void draw_themes(const PanelContext& context);
  /// Something that computes. `share`: 0 to 1. An empty `stop`: it comes to its end alone.
  struct Running {
    std::string what, how_far;
    double share = 0.0;
    std::function<void()> stop = {};
  };
  std::vector<Running> running();
  void draw_progress(const PanelContext& context);
  void draw_jobs(const PanelContext& context, const std::vector<Running>& jobs, float right);
  /// Beside the menus, where that has room for the notice: then nothing else moves.
  bool notice_fits_in_bar() const;
  void draw_notice_in_bar(const PanelContext& context);
  void draw_notice(const PanelContext& context, float width);
  StageContent stage_content();
  std::string open_files() const;
  void copy_finding_when_known(const PanelContext& context);

  Host host_;
  Stage stage_;
  std::vector<Sheet> sheets_;
  Actions actions_;
  Hover hover_;    // found in this frame
  Hover hovered_;  // of the frame before
  PolicyHistory history_;
  std::optional<TilesBefore> tiles_before_pin_;  // none where the session began with a pinned head
  RecentFiles recent_;
  TextPanel text_panel_;
  bool presenting_ = false;
  Preferences preferences_;
  double next_step_at_ = 0.0;
  int frames_wanted_ = 2;
  FindingJob finding_;
  ReportJob report_;
  bool list_was_open_ = false;   // in the frame before
  float notice_begin_ = 0.0F;    // pixels: behind the last menu
  bool jobs_wanted_ = false;     // the list of jobs opens with this frame
  bool finding_wanted_ = false;  // to copy it
  std::string drawn_files_;      // as open_files() said when the last frame began
  std::string shown_error_;
  std::string shown_evaluation_, shown_evaluation_error_;
  TracePointer fonts_for_;
  std::optional<WorkspaceState> session_;  // to take over when its trace is there
  std::optional<HeadIndex> first_head_;    // to select when the trace asked for is there
  bool keeps_policy_ = false;              // and the policy stays, whatever that trace ran with
};

}  // namespace kvloupe::window
