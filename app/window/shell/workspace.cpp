#include "app/window/shell/workspace.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/trace/model_place.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/session/session.h"
#include "app/window/panels/lesson_panel.h"
#include "app/window/shell/presentation.h"
#include "app/window/tiles/state_commands.h"
#include "app/window/widgets/key_input.h"

namespace kvloupe::window {

Workspace::Workspace(Host host)
    : state(first_state()),
      results(host.wake),
      shown(state, results, host.wake),
      file_panel(host.wake),
      models(host.models),
      capture_panel(host.wake, models),
      start_page(host.wake, host.demo),
      lessons(host.wake, host.demo),
      cause_card(models, host.demo.cache, host.demo.program, host.wake),
      recent(host.recent_files),
      host_(std::move(host)) {
  fonts.metrics = &metrics;
  fonts.backend = &backend;
  if (host_.preferences.empty()) return;
  preferences_ = read_preferences(host_.preferences);
  state.theme = preferences_.theme;
  state.amounts = preferences_.amounts;
  state.scale = preferences_.scale;
  state.patterns = preferences_.patterns;
  reduced_motion = preferences_.reduced_motion;
  export_panel.take(preferences_);
  capture_panel.options.model = preferences_.model;
}

Workspace::~Workspace() = default;

/// Writes them when a hand has let go of what it changed.
void Workspace::follow_preferences() {
  if (host_.preferences.empty() || ImGui::IsAnyItemActive()) return;
  Preferences now = preferences_;
  now.theme = state.theme;
  now.amounts = state.amounts;
  now.scale = state.scale;
  now.patterns = state.patterns;
  now.reduced_motion = reduced_motion;
  if (capture_panel.running()) now.model = capture_panel.options.model;
  export_panel.give(now);
  if (now == preferences_) return;
  preferences_ = now;
  write_preferences(preferences_, host_.preferences);
}

void Workspace::fail(const std::string& line) {
  notice = line;
  notice_is_error = true;
}

void Workspace::tell(const std::string& line) {
  notice = line;
  notice_is_error = false;
}

void Workspace::open(const std::string& path) {
  if (looks_like_evaluation(path)) {
    notice.clear();
    results.open_evaluation(path);
    return;
  }
  if (is_session_file(path)) {
    try {
      open_session(path);
    } catch (const std::exception& error) {
      fail(error.what());
    }
    return;
  }
  notice.clear();
  if (holds_model(path)) {
    capture_panel.open_model(context(), path);
    return;
  }
  first_head_.reset();
  state.trace = path;
  results.open(path);
}

void Workspace::open_session(const std::string& path) { restore(read_session(path)); }

void Workspace::show(const TracePointer& trace, std::optional<HeadIndex> head) {
  notice.clear();
  first_head_ = head;
  state.trace = trace->path().string();
  results.adopt(trace);
}

void Workspace::restore(WorkspaceState restored, const TracePointer& trace) {
  state = std::move(restored);
  history.clear();
  playing = false;
  if (trace) {
    show(trace);
  } else if (!state.trace.empty()) {
    results.open(state.trace);
  }
  opening_session_ = true;
}

void Workspace::save_session(const std::string& path) const {
  WorkspaceState saved = state;
  // The session is found again from any folder, and so is its trace.
  if (!saved.trace.empty()) saved.trace = std::filesystem::absolute(saved.trace).string();
  refuse_own_input(path, {saved.trace});
  write_session(saved, path);
}

void Workspace::open_lesson(const std::string& name) {
  lesson_folded = false;
  lessons.open(name);
}

void Workspace::take_view(WorkspaceState view) {
  state = std::move(view);
  playing = false;
  token_card.close();
}

bool Workspace::prepare_fonts(float display_scale) {
  float scale = static_cast<float>(state.scale) * display_scale;
  if (presenting_) {
    const ImVec2 screen = ImGui::GetIO().DisplaySize;
    scale = presentation_scale(scale, static_cast<float>(state.scale), screen.x, screen.y);
  }
  if (const TracePointer trace = results.trace(); trace && fonts_for_ != results.trace_key()) {
    fonts_for_ = results.trace_key();
    for (const std::string& piece : trace->tokens().text) fonts.need(piece);
  }
  if (!fonts.stale(scale)) return false;
  fonts.build(scale);
  return true;
}

std::string Workspace::open_files() const {
  return results.trace_key() + "|" + results.evaluation_key();
}

bool Workspace::settled() const {
  if (results.opening() || results.opening_evaluation() || start_page.capturing()) return false;
  if (lessons.busy() || file_panel.listing() || cause_card.busy() || finding_wanted_) return false;
  if (drawn_files_ != open_files()) return false;  // what was drawn last is of other files
  if (!results.trace() && !results.evaluation()) return true;
  if (frames_wanted_ > 0 || !results.idle() || export_panel.previewing()) return false;
  if (shown.waiting() || (grid.in_sight() && !grid.settled())) return false;
  // Those in sight: the others compute nothing.
  const StageLayout& stage = stage_.layout();
  for (std::size_t i = stage.first; i < stage.first + stage.count; ++i) {
    if (!tiles[i].settled()) return false;
  }
  return true;
}

/// Shows what was just read: its view in the active tile, its two views where nothing else is open.
void Workspace::follow_evaluation() {
  const std::string error = results.evaluation_error();
  if (!error.empty() && error != shown_evaluation_error_) fail(error);
  shown_evaluation_error_ = error;
  const EvaluationPointer evaluation = results.evaluation();
  if (!evaluation || results.evaluation_key() == shown_evaluation_) return;
  shown_evaluation_ = results.evaluation_key();
  const bool needles = evaluation->task == Evaluation::Task::needle;
  const char* first = needles                                        ? "needle-grid"
                      : evaluation->task == Evaluation::Task::rescue ? "rescue"
                      : evaluation->task == Evaluation::Task::study  ? "study-budget"
                                                                     : "perplexity-budget";
  if (results.trace()) {
    show_view(state, first);
  } else {
    state.active_tile = 0;
    state.tile_count = needles ? 2 : 1;
    show_view(state, first);
    if (needles) state.tiles[1] = TileState{.view = "perplexity-budget"};
    host_.set_title(evaluation->path.filename().string() + " – kvloupe");
  }
  frames_wanted_ = 2;
}

void Workspace::follow_new_trace(const Trace& trace) {
  token_card.close();
  if (!opening_session_) {
    state.selection = {};
    const HeadIndex first = first_head_.value_or(HeadIndex{.layer = trace.model().num_layers / 2});
    state.selection.layer = first.layer;
    state.selection.head = first.head;
    for (TileState& tile : state.tiles) {
      Tile::reset(tile);
      tile.limits.reset();
    }
  }
  opening_session_ = false;
  first_head_.reset();
  state.trace = trace.path().string();
  recent.add(trace.path());
  host_.set_title(trace.path().filename().string() + " – kvloupe");
  frames_wanted_ = 2;
}

void Workspace::follow_results() {
  results.follow_evaluation();
  follow_evaluation();
  const TracePointer trace = results.trace();
  const std::string error = results.open_error();
  if (!error.empty() && error != shown_error_) {
    fail(error);
    // The window still shows the trace before: say so in the state, too.
    if (trace) state.trace = trace->path().string();
  }
  shown_error_ = error;
  if (!trace) return;
  if (!shown.is_of_open_trace()) follow_new_trace(*trace);
  keep_in_range(state, results);
  const bool of_both = figure::find_overview_measure(state.grid_measure)->from ==
                       figure::OverviewMeasure::From::both_policies;
  if (of_both && !state.policy_b_on)
    state.grid_measure = figure::overview_measures().front().name;
  results.follow_trace();
  shown.follow();
}

PanelContext Workspace::context() {
  PanelContext c{state, results, shown, fonts, metrics, backend, hovered, hover, actions_, playing};
  c.reduced_motion = reduced_motion;
  return c;
}

PaletteSources Workspace::palette_sources(const PanelContext& c) { return {c, lessons, recent}; }

void Workspace::next_view(int by) {
  const auto views = figure::figure_catalog();
  const auto found = std::find_if(views.begin(), views.end(), [&](const figure::FigureInfo& view) {
    return view.name == active_tile(state).view;
  });
  const auto count = static_cast<int>(views.size());
  int next = (static_cast<int>(found - views.begin()) + by + count) % count;
  // What cannot be shown is no use to those who watch.
  for (int tried = 0; presenting_ && tried < count; ++tried) {
    if (why_not(views[static_cast<std::size_t>(next)], results, state).empty()) break;
    next = (next + by + count) % count;
  }
  show_view(state, views[static_cast<std::size_t>(next)].name);
}

void Workspace::next_tile(int by) {
  if (presenting_ && state.tile_count == 1) {
    next_view(by);
  } else {
    state.active_tile = (state.active_tile + by + state.tile_count) % state.tile_count;
  }
}

void Workspace::next_page() {
  if (lessons.page() + 1 < lessons.page_count()) {
    lessons.turn_to(lessons.page() + 1);
  } else if (const auto next = lessons.next_lesson()) {
    open_lesson(next->name);
  }
}

/// Of a lesson. False: it is another part's.
bool Workspace::perform_lesson(Command command) {
  const bool open = lessons.is_open();
  switch (command) {
    case Command::lessons:
      palette.open_lessons(lessons);
      return true;
    case Command::lesson_next:
      open ? next_page() : next_tile(1);
      return true;
    case Command::lesson_back:
      open ? lessons.turn_to(std::max(0, lessons.page() - 1)) : next_tile(-1);
      return true;
    case Command::lesson_view:
      if (open) lessons.return_to_view();
      return true;
    case Command::lesson_panel:
      lesson_folded = open && !lesson_folded;
      return true;
    case Command::lesson_close:
      lessons.close();
      return true;
    default:
      return false;
  }
}

/// Opens a sheet. False: it is another part's.
bool Workspace::perform_sheet(Command command) {
  const bool trace = results.trace() != nullptr;
  const bool any = trace || results.evaluation();
  switch (command) {
    case Command::open:
      file_panel.open(FilePanel::Purpose::open_trace, state.trace);
      return true;
    case Command::open_session:
      file_panel.open(FilePanel::Purpose::open_session, state.trace);
      return true;
    case Command::save_session:
      file_panel.open(FilePanel::Purpose::save_session, state.trace);
      return true;
    case Command::export_view:
      if (any) export_panel.open(context());
      return true;
    case Command::new_capture:
      capture_panel.open_new(context());
      return true;
    case Command::closed_loop:
      if (trace) capture_panel.open_closed_loop(context());
      return true;
    case Command::palette:
      palette.open_all(palette_sources(context()));
      return true;
    case Command::choose_view:
      if (any) palette.open_views(context(), nullptr);
      return true;
    case Command::help:
      help_open_ = !help_open_;
      return true;
    default:
      return false;
  }
}

void Workspace::perform(Command command) {
  frames_wanted_ = 2;
  if (command == Command::none) return;
  const StateRange range{results.trace().get(), shown.step_count(), shown.step()};
  if (change_state(command, state, range) || perform_sheet(command) || perform_lesson(command))
    return;
  TileState& tile_state = active_tile(state);
  const Tile& tile = tiles[static_cast<std::size_t>(state.active_tile)];
  switch (command) {
    case Command::demo:
      start_page.open_demo();
      break;
    case Command::quit:
      host_.close();
      break;
    case Command::cancel:
      if (!close_topmost()) state.selection.token = -1;
      break;
    case Command::play:
      if (reduced_motion) {
        if (range.trace != nullptr)
          state.selection.step = range.step >= range.steps - 1 ? 0 : range.step + 1;
        break;
      }
      playing = !playing && range.trace != nullptr;
      if (playing && range.step >= range.steps - 1) state.selection.step = 0;
      next_step_at_ = ImGui::GetTime() + 0.4;
      break;
    case Command::reduced_motion:
      reduced_motion = !reduced_motion;
      playing = false;
      break;
    case Command::next_tile:
      next_tile(1);
      break;
    case Command::previous_tile:
      next_tile(-1);
      break;
    case Command::next_view:
      next_view(1);
      break;
    case Command::previous_view:
      next_view(-1);
      break;
    case Command::zoom_in:
      tile.zoom(tile_state, 1.25);
      break;
    case Command::zoom_out:
      tile.zoom(tile_state, 0.8);
      break;
    case Command::pan_left:
      tile.pan(tile_state, -0.1, 0.0);
      break;
    case Command::pan_right:
      tile.pan(tile_state, 0.1, 0.0);
      break;
    case Command::left_panel:
      stage_.toggle(Panel::left, state);
      break;
    case Command::right_panel:
      stage_.toggle(Panel::right, state);
      break;
    case Command::bottom_panel:
      stage_.toggle(Panel::bottom, state);
      break;
    case Command::next_panel:
      stage_.take_keyboard_to_next_panel(lessons.is_open(), state);
      break;
    case Command::present:
      presenting_ = !presenting_ && (range.trace || results.evaluation());
      stage_.close_drawer();
      break;
    case Command::undo:
      history.undo(state);
      break;
    case Command::redo:
      history.redo(state);
      break;
    case Command::copy_finding:
      finding_wanted_ = range.trace != nullptr;
      break;
    case Command::edit_spec:
      stage_.reveal(Panel::right, state);
      editors.a.focus_line();
      break;
    default:
      break;
  }
}

namespace {
template <class... Each>
struct Overloaded : Each... {
  using Each::operator()...;
};
template <class... Each>
Overloaded(Each...) -> Overloaded<Each...>;  // clang 14 needs it
}  // namespace

void Workspace::perform(const Action& action) {
  std::visit(Overloaded{[&](Command command) { perform(command); },
                        [&](const OpenFile& file) { open(file.path); },
                        [&](const ShowTrace& it) { show(it.trace, it.head); },
                        [&](const TakeState& it) { take_view(it.state); },
                        [&](const OpenLesson& lesson) { open_lesson(lesson.name); },
                        [&](const ShowView& view) { show_view(state, view.name); },
                        [&](const TakePolicy& it) {
                          const bool of_b = it.side == PolicySide::b;
                          (of_b ? state.policy_b : state.policy_a) = it.policy;
                          if (of_b) state.policy_b_on = true;
                        },
                        [&](const ExplainToken& it) { token_card.open(it.at); },
                        [&](const ExplainRun& it) { cause_card.open(it.evaluation, it.run, it.at); },
                        [&](const ChooseView& it) {
                          state.active_tile = static_cast<int>(it.tile);
                          palette.open_views(context(), &it.at);
                        },
                        [&](const Say& it) { it.is_error ? fail(it.line) : tell(it.line); }},
             action);
}

void Workspace::do_what_was_asked() {
  // What is done may ask for more.
  while (!actions_.empty()) {
    for (const Action& action : std::exchange(actions_, {})) perform(action);
  }
}

/// What Esc does first. False where there is nothing to close.
bool Workspace::close_topmost() {
  if (palette.is_open()) {
    palette.close();
  } else if (help_open_) {
    help_open_ = false;
  } else if (file_panel.is_open()) {
    file_panel.close();
  } else if (export_panel.is_open()) {
    export_panel.close();
  } else if (capture_panel.is_open()) {
    capture_panel.close();
  } else if (stage_.close_topmost()) {
    return true;
  } else if (token_card.is_open()) {
    token_card.close();
    return false;  // and the token is let go
  } else if (cause_card.is_open()) {
    cause_card.close();
  } else if (presenting_) {
    presenting_ = false;
  } else if (!notice.empty()) {
    notice.clear();
  } else {
    return false;
  }
  return true;
}

bool Workspace::sheet_is_open() const {
  return help_open_ || file_panel.is_open() || export_panel.is_open() || capture_panel.is_open() ||
         palette.is_open();
}

void Workspace::handle_keys() {
  for (const Command command : pressed_commands({sheet_is_open(), stage_.keyboard_is_in_panel()}))
    perform(presenting_ ? while_presenting(command) : command);
}

void Workspace::play_on() {
  if (!playing || ImGui::GetTime() < next_step_at_) return;
  if (shown.step() >= shown.step_count() - 1) {
    playing = false;
    return;
  }
  state.selection.step = shown.step() + 1;
  // A long trace plays in about half a minute, a short one at a pace one can follow.
  next_step_at_ = ImGui::GetTime() + std::clamp(30.0 / std::max(1, shown.step_count()), 0.05, 0.5);
}

void Workspace::draw_notice(const PanelContext& c, float width) {
  ImGui::SetCursorPosY(c.px(4));
  ImGui::AlignTextToFramePadding();
  ImGui::PushStyleColor(ImGuiCol_Text, notice_is_error ? c.colours().error : c.colours().secondary);
  ImGui::PushTextWrapPos(width - c.px(88));
  ImGui::TextUnformatted(notice.c_str());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  ImGui::SameLine(width - c.px(72));
  if (ImGui::SmallButton("Dismiss")) notice.clear();
}

StageContent Workspace::stage_content() {
  StageContent content;
  content.left = [this](const PanelContext& c) { draw_trace_panel(c, grid); };
  content.right = [this](const PanelContext& c) { draw_policy_panel(c, editors); };
  content.bottom = [this](const PanelContext& c) { draw_step_panel(c, token_text); };
  content.bottom_line = [](const PanelContext& c, float kept) { draw_step_line(c, kept); };
  content.bottom_drawer = [this](const PanelContext& c) { draw_token_lines(c, token_text); };
  content.lesson = [this](const PanelContext& c) { draw_lesson_panel(c, lessons, lesson_folded); };
  content.lesson_width =
      lesson_panel_width(lessons, lesson_folded, fonts.scale(), ImGui::GetIO().DisplaySize.x);
  if (!notice.empty())
    content.notice = [this](const PanelContext& c, float width) { draw_notice(c, width); };
  if (!lessons.capturing())
    content.empty = [this](const PanelContext& c) { start_page.draw(c, recent, lessons); };
  return content;
}

MenuContent Workspace::menu_content() {
  MenuContent content{recent, history, lessons, lesson_folded, !settled()};
  if (capture_panel.running()) {
    content.captured = capture_panel.fraction();
  } else if (start_page.capturing()) {
    content.captured = start_page.fraction();
  }
  return content;
}

/// Which heads read the followed tokens and lost them: into the clipboard.
void Workspace::copy_finding_when_known(const PanelContext& c) {
  if (!finding_wanted_) return;
  finding_.request(c, {});
  if (const auto finding = finding_.current()) {
    copy_finding(c, *finding);
  } else if (const std::string error = finding_.error(); !error.empty()) {
    c.fail(error);
  } else if (finding_.computing()) {
    return;
  } else {
    c.fail("the followed tokens \"" + state.followed + "\" are not in the trace");
  }
  finding_wanted_ = false;
}

void Workspace::draw_content() {
  const PanelContext c = context();
  if (presenting_) {
    // Only this tile is drawn, and only it is waited for.
    stage_.show_alone(state.active_tile);
    draw_presentation(c, tiles[static_cast<std::size_t>(state.active_tile)]);
  } else {
    draw_menu(c, menu_content());
    do_what_was_asked();
    stage_.draw(c, tiles, stage_content());
  }
  do_what_was_asked();
  draw_files();
  export_panel.draw(c, tiles[static_cast<std::size_t>(state.active_tile)]);
  capture_panel.draw(c);
  token_card.draw(c);
  cause_card.draw(c);
  copy_finding_when_known(c);
  if (help_open_) draw_help_sheet(c, help_open_);
  palette.draw(c);
  do_what_was_asked();
}

void Workspace::frame() {
  if (frames_wanted_ > 0) --frames_wanted_;
  drawn_files_ = open_files();
  apply_theme(state.theme, fonts.scale());
  const WorkspaceState before = state;
  hovered = hover;
  hover = {};
  handle_keys();
  play_on();
  start_page.follow(context());
  lessons.lead(context());
  do_what_was_asked();
  follow_results();
  lessons.follow(context());
  if (presenting_ && !results.trace() && !results.evaluation()) presenting_ = false;
  draw_content();
  history.follow(state, ImGui::IsAnyItemActive());
  follow_preferences();
  backend.end_frame();
  const bool marks_moved = hover.token != hovered.token ||
                           hover.other_token != hovered.other_token || hover.step != hovered.step;
  if (!(state == before) || marks_moved) frames_wanted_ = 2;
}

void Workspace::draw_files() {
  if (!file_panel.draw(fonts, window_colours(state.theme))) return;
  try {
    switch (file_panel.purpose()) {
      case FilePanel::Purpose::open_session:
        open_session(file_panel.chosen());
        break;
      case FilePanel::Purpose::save_session:
        save_session(file_panel.chosen());
        tell("Saved " + file_panel.chosen());
        break;
      default:
        open(file_panel.chosen());
        break;
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

}  // namespace kvloupe::window
