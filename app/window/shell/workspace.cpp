#include "app/window/shell/workspace.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/base/system/output_file.h"
#include "analysis/base/text/text.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/typed_values.h"
#include "analysis/study/study_traces.h"
#include "analysis/trace/model_files.h"
#include "analysis/trace/shared_weights.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/job/assets.h"
#include "app/session/session.h"
#include "app/window/panels/panels.h"
#include "app/window/shell/presentation.h"
#include "app/window/tiles/state_range.h"
#include "app/window/widgets/key_input.h"
#include "version.h"

namespace kvloupe::window {

Workspace::Workspace(Host host)
    : state(first_state()),
      results(host.wake),
      shown(state, results, host.wake),
      models(host.models),
      sheets(host.wake, models, host.demo),
      start_page(host.wake, host.demo),
      lessons(host.wake, host.demo),
      host_(std::move(host)),
      sheets_(all_sheets()),
      recent_(host_.recent_files) {
  fonts.metrics = &metrics;
  fonts.backend = &backend;
  // What lists and tooltips show: formulas have letters that few fonts have.
  for (const figure::OverviewMeasure& one : figure::overview_measures())
    fonts.need(one.title() + one.help);
  for (const figure::FigureInfo& one : figure::figure_catalog())
    fonts.need(one.title + one.tooltip);
  for (const PolicyEntry& one : policy_catalog())
    fonts.need(one.summary + one.formula + one.source + one.differences);
  if (host_.preferences.empty()) return;
  preferences_ = read_preferences(host_.preferences);
  state.theme = preferences_.theme;
  state.amounts = preferences_.amounts;
  state.scale = preferences_.scale;
  state.patterns = preferences_.patterns;
  reduced_motion = preferences_.reduced_motion;
  stage_.chosen = preferences_.sizes;
  sheets.export_panel.take(preferences_);
  sheets.capture_panel.options.model = preferences_.model;
}

Workspace::~Workspace() = default;

/// Writes them once the user has released the changed control.
void Workspace::follow_preferences() {
  if (host_.preferences.empty() || ImGui::IsAnyItemActive()) return;
  Preferences now = preferences_;
  now.theme = state.theme;
  now.amounts = state.amounts;
  now.scale = state.scale;
  now.patterns = state.patterns;
  now.reduced_motion = reduced_motion;
  now.sizes = stage_.chosen;
  if (sheets.capture_panel.running()) now.model = sheets.capture_panel.options.model;
  sheets.export_panel.give(now);
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
    sheets.capture_panel.open_model(context(), path);
    return;
  }
  first_head_.reset();
  keeps_policy_ = false;
  // The session whose trace has moved is taken over with the trace opened next.
  if (results.open_error().empty()) session_.reset();
  state.trace = path;
  results.open(path);
}

void Workspace::tell_about() {
  const std::filesystem::path assets = job::assets_folder();
  std::string docs = "kvloupe --help";
  for (const auto& place : {assets / "../doc/kvloupe/docs", assets / "../docs"}) {
    std::error_code error;
    if (const auto found = std::filesystem::canonical(place, error); !error) docs = found.string();
  }
  ImGui::SetClipboardText(docs.c_str());
  tell(fmt::format("kvloupe {}; documentation: {} (in the clipboard)", KVLOUPE_VERSION, docs));
}

void Workspace::set_aside(const std::vector<std::string>& paths) {
  if (paths.empty()) return;
  std::string names;
  for (const std::string& path : paths) {
    recent_.add(path);
    names += (names.empty() ? "" : ", ") + std::filesystem::path(path).filename().string();
  }
  tell("The window shows one trace. Not shown, but in File, Open recent: " + names);
}

void Workspace::open_session(const std::string& path) { restore(read_session(path)); }

void Workspace::show(const TracePointer& trace, std::optional<HeadIndex> head) {
  notice.clear();
  first_head_ = head;
  session_.reset();
  state.trace = trace->path().string();
  results.adopt(trace);
}

void Workspace::restore(WorkspaceState restored, const TracePointer& trace) {
  if (trace) {
    show(trace);
  } else if (!restored.trace.empty()) {
    results.open(restored.trace);
  }
  const bool has_trace = trace || !restored.trace.empty();
  // A trace that is still shown has other layers and tokens than the session speaks of.
  if (!has_trace || !results.trace()) {
    take_view(restored);
    history_.clear();
    keep_in_range(state, results);
  }
  session_.reset();
  if (has_trace) session_ = std::move(restored);
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
  sheets.token_card.close();
}

bool Workspace::prepare_fonts(float display_scale) {
  float scale = static_cast<float>(state.scale) * display_scale;
  if (presenting_) {
    const ImVec2 screen = ImGui::GetIO().DisplaySize;
    scale = presentation_scale(scale, static_cast<float>(state.scale), screen.x, screen.y);
  }
  if (const TracePointer trace = results.next_trace(); trace && fonts_for_ != trace) {
    fonts_for_ = trace;
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
  if (lessons.busy() || sheets.file_panel.listing() || sheets.cause_card.busy() || finding_wanted_)
    return false;
  if (sheets.head_table.busy() || sheets.cache.busy()) return false;
  if (sheets.capture_panel.busy() || sheets.study_panel.busy()) return false;
  if (drawn_files_ != open_files()) return false;  // what was drawn last is of other files
  if (!results.trace() && !results.evaluation()) return true;
  if (frames_wanted_ > 0 || !results.idle() || sheets.export_panel.previewing()) return false;
  if (shown.waiting() || (grid.in_sight() && !grid.settled())) return false;
  // Those in sight: the others compute nothing.
  const StageLayout& stage = stage_.layout();
  for (std::size_t i = stage.first; i < stage.first + stage.count; ++i) {
    if (!tiles[i].settled()) return false;
  }
  return true;
}

/// Shows the file just read: its view in the active tile, or its two views if nothing else is open.
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
  sheets.token_card.close();
  if (const std::string missing = missing_weights(trace); !missing.empty())
    fail(trace.path().string() + ": " + missing);
  if (session_) {
    take_view(*std::exchange(session_, std::nullopt));
    history_.clear();
  } else {
    state.selection = {};
    // Numbers of tokens are of the trace before; the name of a segment is of this one, too.
    const auto names_tokens = [&](const std::string& text) {
      const auto& names = trace.tokens().segment_names;
      return std::find(names.begin(), names.end(), text) != names.end();
    };
    if (!names_tokens(state.followed)) state.followed = "auto";
    take_policy_of(trace.run());
    const HeadIndex first = first_head_.value_or(
        HeadIndex{.layer = figure::nearest_layer(trace, trace.model().num_layers / 2)});
    state.selection.layer = first.layer;
    state.selection.head = first.head;
    for (TileState& tile : state.tiles) {
      Tile::reset(tile);
      tile.limits.reset();
      if (const auto it = tile.choices.find("tokens");
          it != tile.choices.end() && !names_tokens(it->second)) {
        tile.choices.erase(it);
      }
    }
  }
  first_head_.reset();
  keeps_policy_ = false;
  state.trace = trace.path().string();
  recent_.add(trace.path());
  host_.set_title(trace.path().filename().string() + " – kvloupe");
  frames_wanted_ = 2;
}

/// A closed-loop trace is of one policy: the window shows that one, unless another was asked for.
void Workspace::take_policy_of(const RunInfo& run) {
  if (!run.closed_loop() || keeps_policy_) return;
  try {
    state.policy_a = parse_policy(run.policy);
    state.budget = Budget{static_cast<long>(run.budget)};
    state.block = 0;
  } catch (const UsageError&) {  // of a plugin that is not there: the badge names it
  }
}

/// What quitting would end; empty: nothing that takes long.
std::string Workspace::ended_by_quitting() const {
  const std::string again = std::string(keys_of(Command::quit)) + " again ends ";
  if (sheets.study_panel.running())
    return again + "the study that runs. The results so far are kept in " +
           sheets.study_panel.options.results + ", and the same study goes on from there.";
  if (sheets.capture_panel.running())
    return again + "the capture that runs; its unfinished trace is then lost.";
  return sheets.cause_card.busy() ? again + "the model's runs for the cause of an answer." : "";
}

bool Workspace::may_quit() {
  const std::string ends = ended_by_quitting();
  if (ends.empty() || notice == ends) return true;
  tell(ends);
  frames_wanted_ = 2;
  return false;
}

void Workspace::follow_results() {
  const bool was_read = results.take_opened();
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
  // A session may be of the trace that is shown.
  if (!shown.is_of_open_trace() || (was_read && session_)) follow_new_trace(*trace);
  keep_in_range(state, results);
  const bool of_both = figure::find_overview_measure(state.grid_measure)->from ==
                       figure::OverviewMeasure::From::both_policies;
  if (of_both && !state.policy_b_on) state.grid_measure = figure::overview_measures().front().name;
  results.follow_trace();
  shown.follow();
}

PanelContext Workspace::context() {
  PanelContext c{state,   results,  shown,  fonts,    metrics,
                 backend, hovered_, hover_, actions_, playing};
  c.reduced_motion = reduced_motion;
  return c;
}

PaletteSources Workspace::palette_sources(const PanelContext& c) { return {c, lessons, recent_}; }

void Workspace::next_view(int by) {
  const auto views = figure::figure_catalog();
  const auto found = std::find_if(views.begin(), views.end(), [&](const figure::FigureInfo& view) {
    return view.name == active_tile(state).view;
  });
  const auto count = static_cast<int>(views.size());
  int next = (static_cast<int>(found - views.begin()) + by + count) % count;
  // A presentation skips views that cannot be shown.
  for (int tried = 0; presenting_ && tried < count; ++tried) {
    if (why_not(views[static_cast<std::size_t>(next)], results, state).empty()) break;
    next = (next + by + count) % count;
  }
  show_view(state, views[static_cast<std::size_t>(next)].name);
}

void Workspace::pin_or_unpin() {
  if (pinned_tile(state) != nullptr) {
    unpin_head(state, std::exchange(tiles_before_pin_, std::nullopt));
    return;
  }
  tiles_before_pin_ = pin_head(state);
  tell(fmt::format("Layer {}, head {} is pinned. Select another head to see it beside; {} unpins.",
                   state.selection.layer, state.selection.head, keys_of(Command::pin_head)));
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

/// Without a search, this opens the field.
void Workspace::find_again(int by) {
  TextSearch& search = text_panel_.search;
  if (!search.is_open() || search.query.empty()) return perform(Command::find_text);
  search.go(by);
}

void Workspace::play() {
  const int steps = shown.step_count();
  const bool at_end = shown.step() >= steps - 1;
  if (reduced_motion) {
    state.selection.step = at_end ? 0 : shown.step() + 1;
    return;
  }
  playing = !playing;
  if (playing && at_end) state.selection.step = 0;
  next_step_at_ = ImGui::GetTime() + 0.4;
}

void Workspace::choose_file(FilePanel::Purpose purpose) {
  const EvaluationPointer study = results.evaluation(Evaluation::Task::study);
  const bool beside_study = study != nullptr && (purpose == FilePanel::Purpose::save_report ||
                                                 purpose == FilePanel::Purpose::save_head_table);
  sheets.file_panel.open(purpose, beside_study ? study->path.string() : state.trace);
}

bool Workspace::is_possible(const CommandRow& row) const {
  return missing_for(row.needs, results.trace() != nullptr, results.evaluation() != nullptr,
                     lessons.is_open())
      .empty();
}

void Workspace::perform(Command command) {
  frames_wanted_ = 2;
  const CommandRow* row = find_command(command);
  if (row == nullptr || !is_possible(*row)) return;
  if (const auto* act = std::get_if<CommandRow::Act>(&row->act)) return (*act)(*this);
  change_state(command, state, {results.trace().get(), shown.step_count(), shown.step()});
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
  std::visit(
      Overloaded{
          [&](Command command) { perform(command); },
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
          [&](const ExplainToken& it) { sheets.token_card.open(it.at); },
          [&](const ExplainRun& it) { explain(it); },
          [&](const ChooseView& it) {
            state.active_tile = static_cast<int>(it.tile);
            sheets.palette.open_views(context(), &it.at);
          },
          [&](const ChooseMeasure& it) { sheets.palette.open_measures(context(), &it.at); },
          [&](const ChooseModifier& it) {
            sheets.palette.open_modifiers(context(), it.side, &it.at);
          },
          [&](const AddModifier& it) {
            const bool of_b = it.side == PolicySide::b;
            const PolicyEntry* entry = find_policy(it.name);
            if (entry == nullptr) return;
            stage_.reveal(Panel::right, state);
            (of_b ? editors.b : editors.a).add(*entry, of_b ? state.policy_b : state.policy_a);
          },
          [&](const ShowInGrid& it) { state.grid_measure = it.measure; },
          [&](const Say& it) { it.is_error ? fail(it.line) : tell(it.line); }},
      action);
}

/// A run in the model leads to the cause of its answer; a replay of a study to its trace, with the
/// replay's policy and budget and the head in hand.
void Workspace::explain(const ExplainRun& asked) {
  const Evaluation& evaluation = *asked.evaluation;
  const bool of_study = evaluation.task == Evaluation::Task::study;
  const StudyResults::Item* item =
      of_study ? &evaluation.study->items[static_cast<std::size_t>(asked.run)] : nullptr;
  if (item == nullptr || item->task != kReplayTask) {
    sheets.cause_card.open(asked.evaluation, asked.run, asked.at);
    return;
  }
  const std::filesystem::path path = find_study_trace(*evaluation.study, item->trace);
  if (path.empty()) {
    fail(
        fmt::format("{}: the trace is neither beside the results nor in the folder of the study "
                    "file; put it there",
                    in_one_line(item->trace, 200)));
    return;
  }
  try {
    state.policy_a = parse_policy(item->policy);
    state.budget = parse_entries_budget(item->budget);
  } catch (const UsageError&) {
    // A policy of another version: the trace is worth a look all the same.
  }
  const HeadIndex head{.layer = state.selection.layer, .head = state.selection.head};
  open(path.string());
  first_head_ = head;
  keeps_policy_ = true;
}

void Workspace::do_what_was_asked() {
  // An action may ask for more actions.
  while (!actions_.empty()) {
    for (const Action& action : std::exchange(actions_, {})) perform(action);
    keep_in_range(state, results);
  }
}

/// In the order in which Esc closes them; drawn from the last to the first.
std::vector<Workspace::Sheet> Workspace::all_sheets() {
  const auto of = [](auto& sheet, bool has_keyboard) {
    return Sheet{[&] { return sheet.is_open(); }, [&] { sheet.close(); },
                 [&](const PanelContext& c) { sheet.draw(c); }, has_keyboard};
  };
  FilePanel& files = sheets.file_panel;
  ExportPanel& pages = sheets.export_panel;
  return {
      of(sheets.palette, true),
      of(sheets.help, true),
      {[&] { return files.is_open(); }, [&] { files.close(); },
       [this, &files](const PanelContext& c) {
         if (files.draw(c.fonts, c.colours())) take_chosen_file();
       },
       true},
      {[&] { return pages.is_open(); }, [&] { pages.close(); },
       [this, &pages](const PanelContext& c) { pages.draw(c, tile()); }, true},
      of(sheets.capture_panel, true),
      of(sheets.study_panel, true),
      of(sheets.cache, true),
      {[this] { return text_panel_.search.is_open(); }, [this] { text_panel_.search.close(); }},
      {[this] { return stage_.keyboard_is_in_panel() || stage_.drawer() != Panel::none; },
       [this] { stage_.close_topmost(); }},
      {[this] { return sheets.token_card.is_open(); },
       [this] {
         sheets.token_card.close();
         state.selection.token = -1;
       },
       [this](const PanelContext& c) { sheets.token_card.draw(c); }},
      of(sheets.cause_card, false),
      of(sheets.head_table, false),
      {[this] { return presenting_; }, [this] { presenting_ = false; }},
      {[this] { return !notice.empty(); }, [this] { notice.clear(); }},
  };
}

void Workspace::close_topmost() {
  for (const Sheet& sheet : sheets_) {
    if (sheet.is_open()) return sheet.close();
  }
  state.selection.token = -1;
}

bool Workspace::sheet_has_keyboard() const {
  return std::any_of(sheets_.begin(), sheets_.end(),
                     [](const Sheet& one) { return one.has_keyboard && one.is_open(); });
}

void Workspace::handle_keys() {
  for (Command command :
       pressed_commands({sheet_has_keyboard(), text_panel_.search.waits_for_keyboard(),
                         list_was_open_ || list_is_open(), stage_.keyboard_is_in_panel()})) {
    if (presenting_) command = find_command(command)->presenting.value_or(command);
    perform(command);
  }
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
  content.bottom = [this](const PanelContext& c) { draw_step_panel(c, text_panel_); };
  content.bottom_line = [](const PanelContext& c, float kept) { draw_step_line(c, kept); };
  content.bottom_drawer = [this](const PanelContext& c) { draw_token_lines(c, text_panel_); };
  content.lesson = [this](const PanelContext& c) { draw_lesson_panel(c, lessons, lesson_folded); };
  content.lesson_width =
      lesson_panel_width(lessons, lesson_folded, fonts.scale(), ImGui::GetIO().DisplaySize.x);
  if (!notice.empty() && !notice_fits_in_bar())
    content.notice = [this](const PanelContext& c, float width) { draw_notice(c, width); };
  if (!lessons.capturing()) {
    content.empty = [this](const PanelContext& c) {
      start_page.draw(c, recent_, lessons, !sheet_has_keyboard());
    };
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
    draw_presentation(c, tile());
  } else {
    draw_menu(c);
    do_what_was_asked();
    stage_.draw(c, tiles, stage_content());
  }
  do_what_was_asked();
  for (auto sheet = sheets_.rbegin(); sheet != sheets_.rend(); ++sheet) {
    if (sheet->draw) sheet->draw(c);
  }
  copy_finding_when_known(c);
  do_what_was_asked();
}

void Workspace::frame() {
  if (frames_wanted_ > 0) --frames_wanted_;
  drawn_files_ = open_files();
  apply_theme(state.theme, fonts.scale());
  const WorkspaceState before = state;
  hovered_ = hover_;
  hover_ = {};
  handle_keys();
  play_on();
  start_page.follow(context());
  lessons.lead(context());
  report_.follow(context());
  do_what_was_asked();
  keep_pinned_alike(state);
  follow_results();
  lessons.follow(context());
  if (presenting_ && !results.trace() && !results.evaluation()) presenting_ = false;
  draw_content();
  history_.follow(state, ImGui::IsAnyItemActive());
  follow_preferences();
  backend.end_frame();
  list_was_open_ = list_is_open();  // Esc closes a list before the next frame reads the keys
  if (!(state == before) || hover_ != hovered_ || text_panel_.search.waits_for_keyboard())
    frames_wanted_ = 2;
}

void Workspace::take_chosen_file() {
  const FilePanel& files = sheets.file_panel;
  try {
    switch (files.purpose()) {
      case FilePanel::Purpose::open_session:
        open_session(files.chosen());
        break;
      case FilePanel::Purpose::save_session:
        save_session(files.chosen());
        tell("Saved " + files.chosen());
        break;
      case FilePanel::Purpose::save_report:
        report_.start(context(), files.chosen());
        break;
      case FilePanel::Purpose::save_page:
        report_.start_page(context(), files.chosen());
        break;
      case FilePanel::Purpose::save_finding:
        report_.start_finding(context(), files.chosen());
        break;
      case FilePanel::Purpose::save_head_table:
        report_.start_table(context(), files.chosen());
        break;
      default:
        open(files.chosen());
        break;
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

}  // namespace kvloupe::window
