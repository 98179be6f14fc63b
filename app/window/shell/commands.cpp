#include "app/window/widgets/commands.h"

#include <fmt/format.h>
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "app/window/shell/workspace.h"
#include "app/window/state/layouts.h"
#include "app/window/tiles/state_range.h"

namespace kvloupe::window {

namespace {

constexpr double kSizeStep = 1.1;    // of everything drawn
constexpr double kBudgetStep = 1.1;  // a tenth more
constexpr double kZoomStep = 1.25;
constexpr double kPanStep = 0.1;  // of the view's width
constexpr int kColourMaps = 3;

void show_tiles(WorkspaceState& state, int count) {
  state.tile_count = count;
  state.active_tile = std::min(state.active_tile, count - 1);
}

void scale_and_tell(Workspace& workspace, double factor) {
  double& scale = workspace.state.scale;
  scale = std::clamp(std::round(scale * factor * 20) / 20, kMinScale, kMaxScale);
  workspace.tell(fmt::format("Size {:.0f} %", 100 * scale));
}

/// By a factor, by one entry at least; in the unit in which it is written.
void change_budget(WorkspaceState& state, const StateRange& range, double factor) {
  if (range.trace == nullptr) return;
  const int prompt = range.trace->run().prompt_length;
  const int entries = state.budget.resolve(prompt);
  const int wanted =
      std::clamp(static_cast<int>(std::lround(entries * factor)), 1, std::max(1, prompt));
  const int changed =
      wanted != entries ? wanted : std::clamp(entries + (factor > 1 ? 1 : -1), 1, prompt);
  state.budget = budget_of(changed, prompt, std::holds_alternative<Percent>(state.budget.value));
}

template <Command command>
void choose_layout(WorkspaceState& state, const StateRange&) {
  for (const Layout& layout : layouts()) {
    if (layout.command == command) apply_layout(layout, state);
  }
}

constexpr unsigned kControl = 1, kShift = 2, kRepeats = 4;

/// A key, whatever it types; with modifiers.
constexpr KeyPress key(int code, unsigned modifiers = 0) {
  return {.key = code,
          .control = (modifiers & kControl) != 0,
          .shift = (modifiers & kShift) != 0,
          .repeats = (modifiers & kRepeats) != 0};
}
/// The same, on the keypad too.
constexpr KeyPress also(KeyPress press, int keypad) {
  press.also_key = keypad;
  return press;
}
/// The same, with Shift or without.
constexpr KeyPress with_any_shift(KeyPress press) {
  press.any_shift = true;
  return press;
}
/// A character, on whatever key the layout has it. The system repeats it while held.
constexpr KeyPress typed(char character) { return {.character = character}; }

}  // namespace

// A layer, head, token or step beyond the trace is brought back by keep_in_range.
std::span<const CommandRow> Workspace::commands() {
  using S = WorkspaceState;
  using R = StateRange;
  using W = Workspace;
  static constexpr CommandRow kRows[] = {
      {Command::layer_up, "↑", "layer above", "Select", key(GLFW_KEY_UP, kRepeats),
       Needs::trace,
       [](S& s, const R&) { s.selection.layer = std::max(0, s.selection.layer - 1); },
       {}, Command::previous_tile},
      {Command::layer_down, "↓", "layer below", "Select", key(GLFW_KEY_DOWN, kRepeats),
       Needs::trace, [](S& s, const R&) { ++s.selection.layer; }, {}, Command::next_tile},
      {Command::head_left, "←", "head to the left", "Select",
       key(GLFW_KEY_LEFT, kRepeats), Needs::trace,
       [](S& s, const R&) { s.selection.head = std::max(0, s.selection.head - 1); }, {},
       Command::step_back},
      {Command::head_right, "→", "head to the right", "Select",
       key(GLFW_KEY_RIGHT, kRepeats), Needs::trace,
       [](S& s, const R&) { ++s.selection.head; }, {}, Command::step_forward},
      {Command::head_table, "Ctrl T", "table of heads: measures, sorted, filtered, as CSV",
       "Select", key(GLFW_KEY_T, kControl), Needs::trace,
       [](W& w) { w.sheets.head_table.toggle(); }, {Menu::view, 1, "Table of heads…"}},
      {Command::token_back, "Shift ←", "previous token", "Select",
       key(GLFW_KEY_LEFT, kShift | kRepeats), Needs::trace,
       [](S& s, const R&) { s.selection.token = std::max(0, s.selection.token - 1); }},
      {Command::token_forward, "Shift →", "next token", "Select",
       key(GLFW_KEY_RIGHT, kShift | kRepeats), Needs::trace,
       [](S& s, const R&) { ++s.selection.token; }},
      {Command::whole_range, "R", "show all tokens again (Shift-drag chooses a range)",
       "Select", typed('r'), Needs::trace,
       [](S& s, const R&) {
         s.selection.first_token = 0;
         s.selection.last_token = -1;
       }},
      {Command::find_text, "Ctrl F", "find text in the prompt and the answer", "Select",
       key(GLFW_KEY_F, kControl), Needs::trace,
       [](W& w) {
         w.stage_.reveal(Panel::bottom, w.state);
         w.text_panel_.search.open();
       },
       {Menu::edit, 1, "Find text…"}, Command::none},
      {Command::find_next, "F3", "next place of that text (in the field: Enter)", "Select",
       key(GLFW_KEY_F3, kRepeats), Needs::trace, [](W& w) { w.find_again(1); },
       {Menu::edit, 1, "Find next"}, Command::none},
      {Command::find_previous, "Shift F3", "the place before (Shift Enter; Alt Enter follows it)",
       "Select", key(GLFW_KEY_F3, kShift | kRepeats), Needs::trace,
       [](W& w) { w.find_again(-1); }, {Menu::edit, 1, "Find previous"}, Command::none},
      {Command::cancel, "Esc", "deselect the token; close what is open", "Select",
       key(GLFW_KEY_ESCAPE), Needs::nothing, [](W& w) { w.close_topmost(); }},

      {Command::step_back, ",", "previous step", "Steps", typed(','), Needs::trace,
       [](S& s, const R& r) { s.selection.step = std::max(0, r.step - 1); }},
      {Command::step_forward, ".", "next step", "Steps", typed('.'), Needs::trace,
       [](S& s, const R& r) { s.selection.step = r.step + 1; }},
      {Command::step_first, "Home", "first step", "Steps", key(GLFW_KEY_HOME),
       Needs::trace, [](S& s, const R&) { s.selection.step = 0; }},
      {Command::step_last, "End", "last step", "Steps", key(GLFW_KEY_END), Needs::trace,
       [](S& s, const R& r) { s.selection.step = std::max(0, r.steps - 1); }},
      {Command::play, "Space", "play, pause", "Steps", typed(' '), Needs::trace,
       [](W& w) { w.play(); }},

      {Command::budget_down, "[", "smaller budget", "Policy", typed('['), Needs::trace,
       [](S& s, const R& r) { change_budget(s, r, 1 / kBudgetStep); }},
      {Command::budget_up, "]", "larger budget", "Policy", typed(']'), Needs::trace,
       [](S& s, const R& r) { change_budget(s, r, kBudgetStep); }},
      {Command::policy_b, "B", "policy B on or off", "Policy", typed('b'), Needs::trace,
       [](S& s, const R&) { s.policy_b_on = !s.policy_b_on; }},
      {Command::edit_spec, "/", "type policy A", "Policy", typed('/'), Needs::trace,
       [](W& w) {
         w.stage_.reveal(Panel::right, w.state);
         w.editors.a.focus_line();
       },
       {}, Command::none},
      {Command::undo, "Ctrl Z", "undo a change of policy or budget", "Policy",
       key(GLFW_KEY_Z, kControl), Needs::trace, [](W& w) { w.history_.undo(w.state); },
       {Menu::edit, 0, "Undo change of policy", "", nullptr,
        [](const W& w) { return w.history_.can_undo(); }, nullptr,
        "Nothing of the policy or the budget was changed."}},
      {Command::redo, "Ctrl Shift Z", "redo the change", "Policy",
       key(GLFW_KEY_Z, kControl | kShift), Needs::trace,
       [](W& w) { w.history_.redo(w.state); },
       {Menu::edit, 0, "Redo", "", nullptr,
        [](const W& w) { return w.history_.can_redo(); }, nullptr,
        "Nothing was undone."}},

      {Command::tiles_1, "1", "one view", "Views", typed('1'), Needs::picture,
       [](S& s, const R&) { show_tiles(s, 1); },
       {Menu::view, 1, "One view", "", [](const W& w) { return w.state.tile_count == 1; }}},
      {Command::tiles_2, "2", "two views", "Views", typed('2'), Needs::picture,
       [](S& s, const R&) { show_tiles(s, 2); },
       {Menu::view, 1, "Two views", "", [](const W& w) { return w.state.tile_count == 2; }}},
      {Command::tiles_3, "3", "three views", "Views", typed('3'), Needs::picture,
       [](S& s, const R&) { show_tiles(s, 3); },
       {Menu::view, 1, "Three views", "", [](const W& w) { return w.state.tile_count == 3; }}},
      {Command::tiles_4, "4", "four views", "Views", typed('4'), Needs::picture,
       [](S& s, const R&) { show_tiles(s, 4); },
       {Menu::view, 1, "Four views", "", [](const W& w) { return w.state.tile_count == 4; }}},
      {Command::tiles_ab, "C", "A | B: this view under both policies", "Views",
       typed('c'), Needs::trace, [](S& s, const R&) { show_a_beside_b(s); },
       {Menu::view, 1, "A beside B"}},
      {Command::pin_head, "H", "pin this head beside the one selected next; unpin it", "Views",
       typed('h'), Needs::trace, [](W& w) { w.pin_or_unpin(); },
       {Menu::view, 1, "Pinned head beside the selected one", "",
        [](const W& w) { return pinned_tile(w.state) != nullptr; }}},
      {Command::choose_view, "K", "choose what this tile shows", "Views", typed('k'),
       Needs::picture, [](W& w) { w.sheets.palette.open_views(w.context(), nullptr); },
       {Menu::view, 0, "Choose view…"}},
      {Command::next_view, "V", "next kind of view in this tile", "Views", typed('v'),
       Needs::picture, [](W& w) { w.next_view(1); }},
      {Command::previous_view, "Shift V", "previous kind of view in this tile", "Views",
       typed('V'), Needs::picture, [](W& w) { w.next_view(-1); }},
      {Command::next_tile, "W", "next tile", "Views", typed('w'), Needs::picture,
       [](W& w) { w.next_tile(1); }},
      {Command::previous_tile, "Shift W", "previous tile", "Views", typed('W'),
       Needs::picture, [](W& w) { w.next_tile(-1); }},
      {Command::zoom_in, "+", "zoom in (or the wheel)", "Views", typed('+'),
       Needs::picture, [](W& w) { w.tile().zoom(active_tile(w.state), kZoomStep); }},
      {Command::zoom_out, "−", "zoom out", "Views", typed('-'), Needs::picture,
       [](W& w) { w.tile().zoom(active_tile(w.state), 1 / kZoomStep); }},
      {Command::pan_left, "A", "pan left (or drag)", "Views", typed('a'), Needs::picture,
       [](W& w) { w.tile().pan(active_tile(w.state), -kPanStep, 0.0); }},
      {Command::pan_right, "D", "pan right", "Views", typed('d'), Needs::picture,
       [](W& w) { w.tile().pan(active_tile(w.state), kPanStep, 0.0); }},
      {Command::reset_view, "0", "whole view (or double-click)", "Views", typed('0'),
       Needs::picture,
       [](S& s, const R&) {
         Tile::reset(active_tile(s));
         active_tile(s).limits.reset();
       }},
      {Command::stop_view, "Ctrl .", "stop computing the view; go on", "Views",
       key(GLFW_KEY_PERIOD, kControl), Needs::nothing,
       [](W& w) { w.tile().stopped() ? w.tile().go_on() : w.tile().stop(); }},

      {Command::layout_explore, "Ctrl 1", "explore one head", "Layouts",
       key(GLFW_KEY_1, kControl), Needs::trace, choose_layout<Command::layout_explore>},
      {Command::layout_compare, "Ctrl 2", "compare two policies", "Layouts",
       key(GLFW_KEY_2, kControl), Needs::trace, choose_layout<Command::layout_compare>},
      {Command::layout_merge, "Ctrl 3", "merging", "Layouts", key(GLFW_KEY_3, kControl),
       Needs::trace, choose_layout<Command::layout_merge>},
      {Command::layout_sinks, "Ctrl 4", "attention sinks", "Layouts",
       key(GLFW_KEY_4, kControl), Needs::trace, choose_layout<Command::layout_sinks>},
      {Command::layout_figure, "Ctrl 5", "one view alone", "Layouts",
       key(GLFW_KEY_5, kControl), Needs::trace, choose_layout<Command::layout_figure>},

      {Command::lessons, "L", "choose a lesson", "Lessons", typed('l'), Needs::nothing,
       [](W& w) { w.sheets.palette.open_lessons(w.lessons); }},
      {Command::lesson_next, "Page Down", "next page (without a lesson: next tile)",
       "Lessons", key(GLFW_KEY_PAGE_DOWN), Needs::nothing,
       [](W& w) { w.lessons.is_open() ? w.next_page() : w.next_tile(1); },
       {Menu::lessons, 1, "Next page", "", nullptr,
        [](const W& w) { return w.lessons.is_open(); }, nullptr,
        "Open a lesson first."}},
      {Command::lesson_back, "Page Up", "previous page (previous tile)", "Lessons",
       key(GLFW_KEY_PAGE_UP), Needs::nothing,
       [](W& w) {
         w.lessons.is_open() ? w.lessons.turn_to(std::max(0, w.lessons.page() - 1))
                             : w.next_tile(-1);
       },
       {Menu::lessons, 1, "Previous page", "", nullptr,
        [](const W& w) { return w.lessons.is_open() && w.lessons.page() > 0; }, nullptr,
        "This is the first page, or no lesson is open."}},
      {Command::lesson_view, "Ctrl Home", "return to the page's view", "Lessons",
       key(GLFW_KEY_HOME, kControl), Needs::lesson,
       [](W& w) { w.lessons.return_to_view(); },
       {Menu::lessons, 1, "Return to the page's view", "", nullptr,
        [](const W& w) { return w.lessons.view_changed(w.state, w.results); }, nullptr,
        "The window shows the page's view."}},
      {Command::lesson_panel, "F10", "fold or unfold the lesson", "Lessons",
       key(GLFW_KEY_F10), Needs::lesson,
       [](W& w) { w.lesson_folded = !w.lesson_folded; },
       {Menu::lessons, 1, "Lesson panel", "",
        [](const W& w) { return w.lessons.is_open() && !w.lesson_folded; }}},
      {Command::lesson_close, "", "", "Lessons", {}, Needs::lesson,
       [](W& w) { w.lessons.close(); }, {Menu::lessons, 1, "Close the lesson"}},

      {Command::open, "Ctrl O", "open a trace, or results", "File", key(GLFW_KEY_O, kControl),
       Needs::nothing, [](W& w) { w.choose_file(FilePanel::Purpose::open_trace); },
       {Menu::file, 0, "Open trace or results…"}},
      {Command::open_session, "Ctrl Shift O", "open a session", "File",
       key(GLFW_KEY_O, kControl | kShift), Needs::nothing,
       [](W& w) { w.choose_file(FilePanel::Purpose::open_session); },
       {Menu::file, 1, "Open session…"}},
      {Command::save_session, "Ctrl S", "save the session", "File",
       key(GLFW_KEY_S, kControl), Needs::nothing,
       [](W& w) { w.choose_file(FilePanel::Purpose::save_session); },
       {Menu::file, 1, "Save session…"}},
      {Command::export_view, "Ctrl E", "export the view", "File",
       key(GLFW_KEY_E, kControl), Needs::picture,
       [](W& w) { w.sheets.export_panel.open(w.context()); },
       {Menu::file, 2, "Export view…"}},
      {Command::save_page, "", "", "File", {}, Needs::trace,
       [](W& w) { w.choose_file(FilePanel::Purpose::save_page); },
       {Menu::file, 2, "Save as page…",
        "The trace under policies A and B at several budgets as one web page, for a reader without the program"}},
      {Command::save_finding, "", "", "File", {}, Needs::trace,
       [](W& w) { w.choose_file(FilePanel::Purpose::save_finding); },
       {Menu::file, 2, "Save finding…",
        "What became of the followed tokens under policy A, with the heads to blame and the commands that check it: one web page"}},
      {Command::save_report, "", "", "File", {}, Needs::nothing,
       [](W& w) { w.choose_file(FilePanel::Purpose::save_report); },
       {Menu::file, 2, "Save report…",
        "The open study on two pages for a reader without the program: FILE.html or FILE.pdf", nullptr,
        [](const W& w) { return w.results.evaluation(Evaluation::Task::study) != nullptr; }, nullptr,
        "Open the results of a study first."}},
      {Command::save_head_table, "", "", "File", {}, Needs::nothing,
       [](W& w) { w.choose_file(FilePanel::Purpose::save_head_table); },
       {Menu::file, 2, "Save entries by head…",
        "How many entries each head should get, learnt from the open study, with the budget as their mean", nullptr,
        [](const W& w) { return w.results.evaluation(Evaluation::Task::study) != nullptr; }, nullptr,
        "Open the results of a study first."}},
      {Command::copy_finding, "Ctrl Shift C",
       "copy the finding: which heads' loss of the followed tokens matters most",
       "File", key(GLFW_KEY_C, kControl | kShift), Needs::trace,
       [](W& w) { w.finding_wanted_ = true; }, {Menu::edit, 2, "Copy finding"}},
      {Command::new_capture, "Ctrl N", "capture a new trace", "File",
       key(GLFW_KEY_N, kControl), Needs::nothing,
       [](W& w) { w.sheets.capture_panel.open_new(w.context()); },
       {Menu::file, 0, "New capture…"}},
      {Command::new_study, "Ctrl Shift N", "compare policies on many traces or prompts", "File",
       key(GLFW_KEY_N, kControl | kShift), Needs::nothing,
       [](W& w) {
         w.sheets.study_panel.open_new(w.context(), w.sheets.capture_panel.options.model);
       },
       {Menu::file, 0, "New study…"}},
      {Command::demo, "Ctrl D", "open the demo", "File", key(GLFW_KEY_D, kControl),
       Needs::nothing, [](W& w) { w.start_page.open_demo(); },
       {Menu::file, 0, "Open the demo"}},
      {Command::closed_loop, "Ctrl R", "run policy A in the model (closed loop)", "File",
       key(GLFW_KEY_R, kControl), Needs::trace,
       [](W& w) { w.sheets.capture_panel.open_closed_loop(w.context()); },
       {Menu::file, 0, "Run policy A in the model…"}},
      {Command::cache, "Ctrl Shift K", "cache folder: traces and weights kept on the disk", "File",
       key(GLFW_KEY_K, kControl | kShift), Needs::nothing,
       [](W& w) { w.sheets.cache.open(); }, {Menu::file, 2, "Cache folder…"}},
      {Command::quit, "Ctrl Q", "quit", "File", key(GLFW_KEY_Q, kControl),
       Needs::nothing, [](W& w) { if (w.may_quit()) w.host_.close(); }, {Menu::file, 3, "Quit"}},

      {Command::palette, "Ctrl K", "find anything: type part of its name", "Window",
       key(GLFW_KEY_K, kControl), Needs::nothing,
       [](W& w) { w.sheets.palette.open_all(w.palette_sources(w.context())); },
       {Menu::help, 0, "Find anything…"}},
      {Command::jobs, "Ctrl J", "jobs: what computes, how far, stop", "Window",
       key(GLFW_KEY_J, kControl), Needs::nothing,
       [](W& w) { w.jobs_wanted_ = true; },
       {Menu::view, 2, "Jobs…"}},
      {Command::present, "F5", "present: one view, large (← → steps, ↑ ↓ views, Esc)",
       "Window", key(GLFW_KEY_F5), Needs::picture,
       [](W& w) {
         w.presenting_ = !w.presenting_;
         w.stage_.close_drawer();
       },
       {Menu::view, 2, "Present"}},
      {Command::next_panel, "F6", "move the keyboard to the next panel's controls",
       "Window", key(GLFW_KEY_F6), Needs::nothing,
       [](W& w) { w.stage_.take_keyboard_to_next_panel(w.lessons.is_open(), w.state); },
       {}, Command::none},
      {Command::left_panel, "F7", "left panel", "Window", key(GLFW_KEY_F7),
       Needs::nothing, [](W& w) { w.stage_.toggle(Panel::left, w.state); },
       {Menu::view, 3, "Left panel", "", [](const W& w) { return w.state.left_panel; }},
       Command::none},
      {Command::bottom_panel, "F8", "bottom panel", "Window", key(GLFW_KEY_F8),
       Needs::nothing, [](W& w) { w.stage_.toggle(Panel::bottom, w.state); },
       {Menu::view, 3, "Bottom panel", "", [](const W& w) { return w.state.bottom_panel; }},
       Command::none},
      {Command::right_panel, "F9", "right panel", "Window", key(GLFW_KEY_F9),
       Needs::nothing, [](W& w) { w.stage_.toggle(Panel::right, w.state); },
       {Menu::view, 3, "Right panel", "", [](const W& w) { return w.state.right_panel; }},
       Command::none},
      {Command::theme, "T", "next theme: light, dark, high contrast", "Window",
       typed('t'), Needs::nothing,
       [](S& s, const R&) {
         const auto next = static_cast<std::size_t>(s.theme) + 1;
         s.theme = figure::kThemes[next % figure::kThemes.size()];
       },
       {Menu::theme, 0, "Next theme"}},
      {Command::patterns, "P", "patterns beside the colours of fates, on or off",
       "Window", typed('p'), Needs::nothing,
       [](S& s, const R&) { s.patterns = !shows_patterns(s); },
       {Menu::view, 4, "Patterns beside colours",
        "Lines and dots where colours show what is evicted, merged or protected",
        [](const W& w) { return shows_patterns(w.state); }}},
      {Command::reduced_motion, "N", "reduced motion: Space goes one step on", "Window",
       typed('n'), Needs::nothing,
       [](W& w) {
         w.reduced_motion = !w.reduced_motion;
         w.playing = false;
       },
       {Menu::view, 4, "Reduced motion", "Nothing moves by itself: Space goes one step on",
        [](const W& w) { return w.reduced_motion; }}},
      {Command::colour_map, "M", "next colour map: viridis, cividis, grey", "Window",
       typed('m'), Needs::nothing,
       [](S& s, const R&) {
         s.amounts = figure::AmountMap((static_cast<int>(s.amounts) + 1) % kColourMaps);
       },
       {Menu::view, 4, "Colours", "", nullptr, nullptr,
        [](const W& w) { return ": " + std::string(amount_map_name(w.state.amounts)); }}},
      {Command::scale_up, "Ctrl +", "larger", "Window",
       with_any_shift(also(key(GLFW_KEY_EQUAL, kControl | kRepeats), GLFW_KEY_KP_ADD)),
       Needs::nothing,
       [](W& w) { scale_and_tell(w, kSizeStep); }, {Menu::view, 4, "Larger"}},
      {Command::scale_down, "Ctrl −", "smaller", "Window",
       also(key(GLFW_KEY_MINUS, kControl | kRepeats), GLFW_KEY_KP_SUBTRACT), Needs::nothing,
       [](W& w) { scale_and_tell(w, 1 / kSizeStep); }, {Menu::view, 4, "Smaller"}},
      {Command::scale_reset, "Ctrl 0", "normal size", "Window",
       also(key(GLFW_KEY_0, kControl), GLFW_KEY_KP_0), Needs::nothing,
       [](W& w) { scale_and_tell(w, 1.0 / w.state.scale); }, {Menu::view, 4, "Normal size"}},
      {Command::help, "F1", "show this sheet (or ?)", "Window",
       {.key = GLFW_KEY_F1, .also = '?'}, Needs::nothing,
       [](W& w) { w.sheets.help.toggle(); }, {Menu::help, 0, "Keys and mouse"}},
      {Command::about, "", "", "Window", {}, Needs::nothing,
       [](W& w) { w.tell_about(); },
       {Menu::help, 1, "Version and documentation"}},
  };
  return kRows;
}

std::span<const CommandRow> kvloupe_list_commands() { return Workspace::commands(); }

}  // namespace kvloupe::window
