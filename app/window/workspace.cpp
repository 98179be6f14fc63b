#include "app/window/workspace.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <utility>

#include "analysis/error.h"
#include "analysis/policy/spec.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/session/session.h"
#include "app/window/layouts.h"
#include "app/window/lesson_panel.h"
#include "app/window/marks.h"
#include "app/window/panels.h"
#include "app/window/presentation.h"

namespace kvloupe::window {

namespace {
constexpr int kFirstFunctionKey = 290;  // GLFW_KEY_F1
}

Workspace::Workspace(Host host)
    : state(first_state()),
      results(host.wake),
      measures(host.wake),
      file_panel(host.wake),
      capture_panel(host.wake),
      start_page(host.wake, host.demo),
      lessons(host.wake, host.demo),
      recent(host.recent_files),
      models(host.models),
      host_(std::move(host)) {
  fonts.metrics = &metrics;
  fonts.backend = &backend;
  if (host_.preferences.empty()) return;
  preferences_ = read_preferences(host_.preferences);
  state.theme = preferences_.theme;
  state.amounts = preferences_.amounts;
  state.scale = preferences_.scale;
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

int Workspace::step() const {
  if (blocks.empty()) return 0;
  if (state.selection.step >= 0) return std::min(state.selection.step, step_count() - 1);
  const TracePointer trace = results.trace();
  const int prompt = trace ? trace->run().prompt_length : 0;
  int last = 0;
  for (int i = 0; i < step_count(); ++i) {
    if (blocks[static_cast<std::size_t>(i)].first < prompt) last = i;
  }
  return last;
}

const HeadReplay* Workspace::head_a() const {
  return focus_a_ ? focus_a_->find(state.selection.layer, state.selection.head) : nullptr;
}

const HeadReplay* Workspace::head_b() const {
  return focus_b_ ? focus_b_->find(state.selection.layer, state.selection.head) : nullptr;
}

std::string Workspace::open_files() const {
  return results.trace_key() + "|" + results.evaluation_key();
}

bool Workspace::settled() const {
  if (results.opening() || results.opening_evaluation() || start_page.capturing()) return false;
  if (lessons.busy() || file_panel.listing()) return false;
  if (drawn_files_ != open_files()) return false;  // what was drawn last is of other files
  if (!results.trace() && !results.evaluation()) return true;
  if (frames_wanted_ > 0 || !results.idle() || export_panel.previewing()) return false;
  if (measures_wait_ || measures.computing()) return false;
  // Those in sight: the others compute nothing.
  for (std::size_t i = stage_.first; i < stage_.first + stage_.count; ++i) {
    if (!tiles[i].settled()) return false;
  }
  return true;
}

void Workspace::keep_in_range() {
  const TracePointer trace = results.trace();
  if (!trace) return;
  const ModelInfo& model = trace->model();
  SharedSelection& at = state.selection;
  at.layer = std::clamp(at.layer, 0, model.num_layers - 1);
  at.head = std::clamp(at.head, 0, model.num_kv_heads - 1);
  if (at.query_head >= 0 &&
      (at.query_head >= model.num_heads || model.head_of(at.query_head) != at.head)) {
    at.query_head = -1;
  }
  const int length = trace->length();
  at.token = std::min(at.token, length - 1);
  at.first_token = std::clamp(at.first_token, 0, length - 1);
  if (at.last_token >= 0) at.last_token = std::clamp(at.last_token, at.first_token, length - 1);
  state.block = std::clamp(state.block, 0, trace->run().prompt_length);
  blocks = results.blocks(state);
  if (at.step >= step_count()) at.step = step_count() - 1;
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
  const char* first = needles ? "needle-grid" : "perplexity-budget";
  if (results.trace()) {
    show_view(first);
  } else {
    state.active_tile = 0;
    state.tile_count = needles ? 2 : 1;
    show_view(first);
    if (needles) state.tiles[1] = TileState{.view = "perplexity-budget"};
    host_.set_title(evaluation->path.filename().string() + " – kvloupe");
  }
  frames_wanted_ = 2;
}

void Workspace::follow_results() {
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
  const std::string key = results.trace_key();
  if (key != shown_trace_) {
    shown_trace_ = key;
    for (int policy = 0; policy < 2; ++policy) {
      step_tokens_[policy] = {};
      step_tokens_key_[policy].clear();
    }
    token_card.close();
    if (!opening_session_) {
      state.selection = {};
      const HeadIndex first =
          first_head_.value_or(HeadIndex{.layer = trace->model().num_layers / 2});
      state.selection.layer = first.layer;
      state.selection.head = first.head;
      for (TileState& tile : state.tiles) {
        Tile::reset(tile);
        tile.limits.reset();
      }
    }
    opening_session_ = false;
    first_head_.reset();
    state.trace = trace->path().string();
    recent.add(trace->path());
    host_.set_title(trace->path().filename().string() + " – kvloupe");
    frames_wanted_ = 2;
  }
  keep_in_range();
  const GridMetric* metric = find_grid_metric(state.grid_metric);
  if (!metric || (metric->from == GridMetric::From::both_policies && !state.policy_b_on))
    state.grid_metric = grid_metrics().front().name;
  results.update(state);
  focus_a_ = results.a.focus.current();
  focus_b_ = state.policy_b_on ? results.b.focus.current() : nullptr;
  all_a_ = results.latest(results.a.all, state, true);
  all_b_ = state.policy_b_on ? results.latest(results.b.all, state, true) : nullptr;

  const int now = step();
  measures_wait_ = false;
  follow_grid(now);
  follow_head_measures(results.a, 0, now);
  follow_head_measures(results.b, 1, now);
  follow_tokens(results.a, 0, now);
  follow_tokens(results.b, 1, now);
}

void Workspace::follow_measured_grid(const Measure& measure, int now) {
  const std::string what = fmt::format("{}|{}|{}", shown_trace_, state.grid_metric, now);
  const auto replay = results.a.all.complete() ? results.a.all.current() : nullptr;
  if (replay && now < static_cast<int>(replay->blocks.size())) {
    measures.want_grid({results.trace(), replay, results.a.all.value_key(), now}, measure, what);
  } else if (results.a.all.computing()) {
    measures_wait_ = true;
  }
  const std::shared_ptr<const GridValues> values = measures.grid(what);
  if (what == grid_of_ && values == measured_grid_) return;
  const ModelInfo& model = results.trace()->model();
  GridValues fresh = values ? *values : no_values(model.num_layers, model.num_kv_heads);
  // While a budget is dragged, heads that are still to come keep what they had, so that nothing
  // flickers; each is replaced as it comes.
  if (what == grid_of_ && measures.computing_grid()) keep_missing(fresh, grid);
  grid_key_.clear();
  grid_of_ = what;
  measured_grid_ = values;
  grid = std::move(fresh);
}

/// The numbers of the selected head at the step in hand.
void Workspace::follow_head_measures(const PolicyResults& policy, int which, int now) {
  const auto replay = which == 0 || state.policy_b_on ? policy.focus.current() : nullptr;
  if (!replay || now >= static_cast<int>(replay->blocks.size())) {
    measures.drop_head(which);
    if (policy.focus.computing() && (which == 0 || state.policy_b_on)) measures_wait_ = true;
    return;
  }
  measures.want_head(which, {results.trace(), replay, policy.focus.value_key(), now},
                     state.selection.layer, state.selection.head);
}

void Workspace::follow_grid(int now) {
  const GridMetric* metric = find_grid_metric(state.grid_metric);
  if (metric != nullptr && metric->measure != nullptr) {
    follow_measured_grid(*metric->measure, now);
    return;
  }
  measured_grid_ = nullptr;
  const auto count = [](const auto& replay) { return replay ? replay->heads.size() : 0; };
  const std::shared_ptr<const Matrix> sinks = results.sinks();
  const std::string key = fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}|{}", shown_trace_, state.grid_metric, now, results.a.all.value_key(),
      count(all_a_), results.b.all.value_key(), count(all_b_), state.policy_b_on, sinks != nullptr);
  if (key == grid_key_) return;
  grid_key_ = key;
  const bool same_steps = all_a_ && all_a_->blocks.size() == blocks.size();
  const ModelInfo& model = results.trace()->model();
  GridValues fresh = grid_values(state.grid_metric,
                                 {same_steps ? all_a_.get() : nullptr, all_b_.get(), sinks.get()},
                                 model.num_layers, model.num_kv_heads, now);
  // While a budget is dragged, heads that are still to come keep what they had, so that nothing
  // flickers; each is replaced as it comes.
  const std::string what = fmt::format("{}|{}|{}", shown_trace_, state.grid_metric, now);
  if (what == grid_of_ && results.a.all.computing()) keep_missing(fresh, grid);
  grid_of_ = what;
  grid = std::move(fresh);
}

void Workspace::follow_tokens(const PolicyResults& policy, int which, int now) {
  const bool on = which == 0 || state.policy_b_on;
  const auto shown = on ? results.latest(policy.focus, state, false) : nullptr;
  const HeadReplay* head =
      shown ? shown->find(state.selection.layer, state.selection.head) : nullptr;
  if (!on) {
    step_tokens_[which] = {};
    step_tokens_key_[which].clear();
  }
  if (!head || now >= static_cast<int>(shown->blocks.size())) return;
  const std::string key =
      fmt::format("{}|{}|{}", policy.focus.value_key(), now, shown->heads.size());
  if (key == step_tokens_key_[which]) return;
  step_tokens_key_[which] = key;
  step_tokens_[which] = step_tokens(*shown, *head, now);
}

void Workspace::change_budget(double factor) {
  const TracePointer trace = results.trace();
  if (!trace) return;
  const Budget budget = parse_budget(state.budget);
  const int prompt = trace->run().prompt_length;
  const int entries = budget.resolve(prompt);
  const int wanted =
      std::clamp(static_cast<int>(std::lround(entries * factor)), 1, std::max(1, prompt));
  const int changed =
      wanted != entries ? wanted : std::clamp(entries + (factor > 1 ? 1 : -1), 1, prompt);
  state.budget = std::holds_alternative<Percent>(budget.value)
                     ? fmt::format("{:.4g}%", 100.0 * changed / std::max(1, prompt))
                     : std::to_string(changed);
}

void Workspace::perform(Command command) {
  SharedSelection& at = state.selection;
  TileState& tile_state = state.tiles[static_cast<std::size_t>(state.active_tile)];
  const Tile& tile = tiles[static_cast<std::size_t>(state.active_tile)];
  const TracePointer trace = results.trace();
  const auto set_tiles = [&](int count) {
    state.tile_count = count;
    state.active_tile = std::min(state.active_tile, count - 1);
  };
  const auto change_view = [&](int by) {
    const auto views = figure::figure_catalog();
    const auto found = std::find_if(views.begin(), views.end(), [&](const figure::FigureInfo& v) {
      return v.name == tile_state.view;
    });
    const auto count = static_cast<int>(views.size());
    int next = (static_cast<int>(found - views.begin()) + by + count) % count;
    // What cannot be shown is no use to those who watch.
    for (int tried = 0; presenting_ && tried < count; ++tried) {
      if (why_not(views[static_cast<std::size_t>(next)], *this).empty()) break;
      next = (next + by + count) % count;
    }
    show_view(views[static_cast<std::size_t>(next)].name);
  };
  const auto go_to_tile = [&](int by) {
    if (presenting_ && state.tile_count == 1) {
      change_view(by);
    } else {
      state.active_tile = (state.active_tile + by + state.tile_count) % state.tile_count;
    }
  };
  const auto scale_by = [&](double factor) {
    state.scale = std::clamp(std::round(state.scale * factor * 20) / 20, kMinScale, kMaxScale);
  };
  switch (command) {
    case Command::none:
      return;
    case Command::open:
      file_panel.open(FilePanel::Purpose::open_trace, state.trace);
      break;
    case Command::open_session:
      file_panel.open(FilePanel::Purpose::open_session, state.trace);
      break;
    case Command::save_session:
      file_panel.open(FilePanel::Purpose::save_session, state.trace);
      break;
    case Command::export_view:
      if (trace || results.evaluation()) export_panel.open(*this);
      break;
    case Command::new_capture:
      capture_panel.open_new(*this);
      break;
    case Command::demo:
      start_page.open_demo();
      break;
    case Command::lessons:
      palette.open_lessons(*this);
      break;
    case Command::lesson_next:
      if (!lessons.is_open()) {
        go_to_tile(1);
      } else if (lessons.page() + 1 < lessons.page_count()) {
        lessons.turn_to(lessons.page() + 1);
      } else if (const auto next = lessons.next_lesson()) {
        open_lesson(next->name);
      }
      break;
    case Command::lesson_back:
      if (lessons.is_open()) {
        lessons.turn_to(std::max(0, lessons.page() - 1));
      } else {
        go_to_tile(-1);
      }
      break;
    case Command::lesson_view:
      if (lessons.is_open()) lessons.return_to_view();
      break;
    case Command::lesson_panel:
      lesson_folded = lessons.is_open() && !lesson_folded;
      break;
    case Command::lesson_close:
      lessons.close();
      break;
    case Command::closed_loop:
      if (trace) capture_panel.open_closed_loop(*this);
      break;
    case Command::palette:
      palette.open_all(*this);
      break;
    case Command::choose_view:
      if (trace || results.evaluation()) palette.open_views(*this, nullptr);
      break;
    case Command::quit:
      host_.close();
      break;
    case Command::help:
      help_open_ = !help_open_;
      break;
    case Command::cancel:
      if (!close_topmost()) at.token = -1;
      break;
    case Command::layer_up:
      at.layer = std::max(0, at.layer - 1);
      break;
    case Command::layer_down:
      ++at.layer;
      break;  // kept in range once per frame
    case Command::head_left:
      at.head = std::max(0, at.head - 1);
      break;
    case Command::head_right:
      ++at.head;
      break;
    case Command::step_back:
      at.step = std::max(0, step() - 1);
      break;
    case Command::step_forward:
      at.step = step() + 1;
      break;
    case Command::step_first:
      at.step = 0;
      break;
    case Command::step_last:
      at.step = std::max(0, step_count() - 1);
      break;
    case Command::play:
      playing = !playing && trace;
      if (playing && step() >= step_count() - 1) at.step = 0;
      next_step_at_ = ImGui::GetTime() + 0.4;
      break;
    case Command::token_back:
      at.token = std::max(0, at.token - 1);
      break;
    case Command::token_forward:
      ++at.token;
      break;
    case Command::token_none:
      at.token = -1;
      break;
    case Command::whole_range:
      at.first_token = 0;
      at.last_token = -1;
      break;
    case Command::tiles_1:
      set_tiles(1);
      break;
    case Command::tiles_2:
      set_tiles(2);
      break;
    case Command::tiles_3:
      set_tiles(3);
      break;
    case Command::tiles_4:
      set_tiles(4);
      break;
    case Command::tiles_ab:
      show_a_beside_b(state);
      break;
    case Command::layout_explore:
    case Command::layout_compare:
    case Command::layout_merge:
    case Command::layout_sinks:
    case Command::layout_figure:
      for (const Layout& layout : layouts()) {
        if (layout.command == command) apply_layout(layout, state);
      }
      break;
    case Command::next_tile:
      go_to_tile(1);
      break;
    case Command::previous_tile:
      go_to_tile(-1);
      break;
    case Command::next_view:
      change_view(1);
      break;
    case Command::previous_view:
      change_view(-1);
      break;
    case Command::reset_view:
      Tile::reset(tile_state);
      tile_state.limits.reset();
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
    case Command::theme:
      state.theme = state.theme == Theme::light ? Theme::dark : Theme::light;
      break;
    case Command::colour_map:
      state.amounts = figure::AmountMap((static_cast<int>(state.amounts) + 1) % 3);
      break;
    case Command::scale_up:
      scale_by(1.1);
      break;
    case Command::scale_down:
      scale_by(1 / 1.1);
      break;
    case Command::scale_reset:
      state.scale = 1.0;
      break;
    case Command::left_panel:
      toggle_panel(1);
      break;
    case Command::right_panel:
      toggle_panel(2);
      break;
    case Command::bottom_panel:
      toggle_panel(3);
      break;
    case Command::present:
      presenting_ = !presenting_ && (trace || results.evaluation());
      keyboard_panel_ = drawer_ = 0;
      break;
    case Command::next_panel:
      keyboard_panel_ = (keyboard_panel_ + 1) % (lessons.is_open() ? 5 : 4);
      drawer_ = is_folded(keyboard_panel_) ? keyboard_panel_ : 0;
      focus_keyboard_panel_ = true;
      if (keyboard_panel_ == 0) ImGui::SetWindowFocus(nullptr);
      break;
    case Command::policy_b:
      state.policy_b_on = !state.policy_b_on;
      break;
    case Command::budget_down:
      change_budget(1 / 1.1);
      break;
    case Command::budget_up:
      change_budget(1.1);
      break;
    case Command::undo:
      history.undo(state);
      break;
    case Command::redo:
      history.redo(state);
      break;
    case Command::edit_spec:
      state.right_panel = true;
      if (is_folded(2) && drawer_ != 2) toggle_panel(2);
      editor_a.focus_line();
      break;
  }
  frames_wanted_ = 2;
}

void Workspace::show_view(const std::string& name) {
  TileState& tile = state.tiles[static_cast<std::size_t>(state.active_tile)];
  if (tile.view == name) return;
  tile = TileState{.view = name, .side = tile.side};
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
  } else if (keyboard_panel_ != 0) {
    keyboard_panel_ = 0;
    drawer_ = 0;
    ImGui::SetWindowFocus(nullptr);
  } else if (drawer_ != 0) {
    drawer_ = 0;
  } else if (token_card.is_open()) {
    token_card.close();
    return false;  // and the token is let go
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
  const ImGuiIO& io = ImGui::GetIO();
  const bool sheet = sheet_is_open();
  const bool typing = io.WantTextInput || ImGui::IsAnyItemActive();
  std::vector<Command> wanted;
  for (const KeyBinding& binding : key_bindings()) {
    const bool moves =
        binding.key == io.KeyMap[ImGuiKey_LeftArrow] ||
        binding.key == io.KeyMap[ImGuiKey_RightArrow] ||
        binding.key == io.KeyMap[ImGuiKey_UpArrow] ||
        binding.key == io.KeyMap[ImGuiKey_DownArrow] || binding.key == io.KeyMap[ImGuiKey_Home] ||
        binding.key == io.KeyMap[ImGuiKey_End] || binding.key == io.KeyMap[ImGuiKey_PageUp] ||
        binding.key == io.KeyMap[ImGuiKey_PageDown];
    const bool always = binding.control || binding.command == Command::cancel ||
                        (binding.key >= kFirstFunctionKey && binding.command != Command::cancel);
    if (sheet && binding.command != Command::cancel && binding.command != Command::help &&
        binding.command != Command::quit) {
      continue;
    }
    if (typing && !always) continue;
    // A line being typed has an undo of its own.
    const bool undoes = binding.command == Command::undo || binding.command == Command::redo;
    if (undoes && typing) continue;
    if (keyboard_panel_ != 0 && (moves || binding.character == ' ')) continue;
    if (binding.character != 0) {
      if (io.KeyCtrl || io.KeyAlt) continue;
      for (const ImWchar typed : io.InputQueueCharacters) {
        if (typed == static_cast<ImWchar>(binding.character)) wanted.push_back(binding.command);
      }
    } else if (io.KeyCtrl == binding.control && io.KeyShift == binding.shift && !io.KeyAlt &&
               ImGui::IsKeyPressed(binding.key, binding.repeats)) {
      wanted.push_back(binding.command);
    }
  }
  for (const Command command : wanted) perform(presenting_ ? while_presenting(command) : command);
}

void Workspace::play_on() {
  if (!playing || ImGui::GetTime() < next_step_at_) return;
  if (step() >= step_count() - 1) {
    playing = false;
    return;
  }
  state.selection.step = step() + 1;
  // A long trace plays in about half a minute, a short one at a pace one can follow.
  next_step_at_ = ImGui::GetTime() + std::clamp(30.0 / std::max(1, step_count()), 0.05, 0.5);
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
  start_page.follow(*this);
  lessons.lead(*this);
  follow_results();
  lessons.follow(*this);
  if (presenting_ && !results.trace() && !results.evaluation()) presenting_ = false;
  if (presenting_) {
    // Only this tile is drawn, and only it is waited for.
    stage_ = {};
    stage_.first = static_cast<std::size_t>(state.active_tile);
    stage_.count = 1;
    draw_presentation(*this);
  } else {
    draw_menu(*this);
    draw_panels();
  }
  draw_files();
  export_panel.draw(*this);
  capture_panel.draw(*this);
  token_card.draw(*this);
  if (help_open_) draw_help_sheet(*this, help_open_);
  palette.draw(*this);
  history.follow(state, ImGui::IsAnyItemActive());
  follow_preferences();
  backend.end_frame();
  const bool marks_moved = hover.token != hovered.token ||
                           hover.other_token != hovered.other_token || hover.step != hovered.step;
  if (!(state == before) || marks_moved) frames_wanted_ = 2;
}

void Workspace::draw_files() {
  if (!file_panel.draw(fonts, colours())) return;
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

bool Workspace::begin_panel(const char* name, int number, float x, float y, float width,
                            float height) {
  ImGui::SetNextWindowPos({x, y});
  ImGui::SetNextWindowSize({width, height});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, colours().panel);
  drawing_keyboard_panel_ = keyboard_panel_ == number;
  if (drawing_keyboard_panel_ && focus_keyboard_panel_) {
    ImGui::SetNextWindowFocus();
    focus_keyboard_panel_ = false;
  }
  ImGuiWindowFlags flags = ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                           ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoCollapse |
                           ImGuiWindowFlags_NoBringToFrontOnFocus |
                           ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoScrollbar |
                           ImGuiWindowFlags_NoScrollWithMouse;
  if (!drawing_keyboard_panel_) flags |= ImGuiWindowFlags_NoNavInputs;
  const bool visible = ImGui::Begin(name, nullptr, flags);
  ImGui::PopStyleColor();
  return visible;
}

bool Workspace::is_folded(int panel) const {
  if (!results.trace() || stage_.count == 0) return false;
  return (panel == 1 && state.left_panel && !stage_.open.left) ||
         (panel == 2 && state.right_panel && !stage_.open.right) ||
         (panel == 3 && state.bottom_panel && !stage_.open.bottom);
}

void Workspace::toggle_panel(int panel) {
  if (is_folded(panel)) {
    drawer_ = drawer_ == panel ? 0 : panel;
    focus_drawer_ = drawer_ != 0;
    return;
  }
  bool& wanted = panel == 1   ? state.left_panel
                 : panel == 2 ? state.right_panel
                              : state.bottom_panel;
  wanted = !wanted;
}

StageSizes Workspace::stage_sizes(float width, float height) const {
  const auto whole = [](float pixels) { return static_cast<double>(std::floor(pixels)); };
  StageSizes sizes;
  // Where there is little room, the picture keeps it.
  sizes.left = whole(std::clamp(width * 0.26F, px(200), px(256)));
  sizes.right = whole(std::clamp(width * 0.26F, px(220), px(280)));
  sizes.bottom = whole(std::clamp(height * 0.2F, px(128), px(192)));
  sizes.side_rail = whole(px(28));
  sizes.bottom_rail = whole(ImGui::GetFrameHeight() + 2 * ImGui::GetStyle().WindowPadding.y);
  sizes.margin = whole(px(8));
  sizes.below = whole(px(8));
  sizes.gap = whole(px(16));
  sizes.header = static_cast<double>(Tile::header_height(fonts));
  sizes.tabs = whole(px(32));
  return sizes;
}

void Workspace::draw_panels() {
  ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float top = ImGui::GetFrameHeight();
  const float height = screen.y - top;
  if (const float lesson = lesson_panel_width(*this, screen.x); lesson > 0) {
    screen.x -= lesson;
    if (begin_panel("##lesson", 4, screen.x, top, lesson, height)) draw_lesson_panel(*this);
    ImGui::End();
  }
  const bool trace = results.trace() != nullptr;
  const Panels wanted =
      trace ? Panels{state.left_panel, state.right_panel, state.bottom_panel} : Panels{};
  const StageSizes sizes = stage_sizes(screen.x, height);
  const std::vector<TileNeed> needs = tile_needs();
  stage_ = lay_out_stage(needs, static_cast<std::size_t>(state.active_tile), wanted, sizes,
                         static_cast<double>(screen.x), static_cast<double>(height));
  if (!is_folded(drawer_)) drawer_ = 0;
  const auto pixels = [](double size) { return static_cast<float>(size); };
  const float left = pixels(stage_.centre.x);
  const float centre = pixels(stage_.centre.width);
  const float right = screen.x - left - centre;
  float bottom = height - pixels(stage_.centre.height);
  const bool all = stage_.count == needs.size();
  if (stage_.open.bottom && notice.empty() && all) {
    // Square maps leave room below them in a wide window: the text gets it.
    const double room = stage_.centre.height - sizes.below;
    const double used =
        arrange_tiles(needs, stage_.centre.width - 2 * sizes.margin, room, sizes.gap, sizes.header)
            .height_used;
    const float free = pixels(room - used);
    if (free > px(32)) bottom = std::floor(std::min(bottom + free, height * 0.6F));
  }
  draw_centre(left, top, centre, height - bottom);
  const float side_height = height - bottom;
  if (stage_.open.left) {
    if (begin_panel("##left", 1, 0, top, left, side_height)) draw_trace_panel(*this);
    ImGui::End();
  } else if (wanted.left) {
    draw_side_rail("Trace and heads", 1, 0, top, side_height);
  }
  if (stage_.open.right) {
    if (begin_panel("##right", 2, screen.x - right, top, right, side_height))
      draw_policy_panel(*this);
    ImGui::End();
  } else if (wanted.right) {
    draw_side_rail("Budget and policies", 2, screen.x - right, top, side_height);
  }
  if (stage_.open.bottom) {
    if (begin_panel("##bottom", 3, 0, screen.y - bottom, screen.x, bottom)) draw_step_panel(*this);
    ImGui::End();
  } else if (wanted.bottom) {
    draw_bottom_rail(screen.y - bottom, screen.x, bottom);
  }
  if (drawer_ != 0) draw_drawer(screen.x, top, side_height);
}

void Workspace::draw_side_rail(const char* title, int number, float x, float y, float height) {
  const float width = px(28);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {0, 0});
  begin_panel(number == 1 ? "##left-rail" : "##right-rail", number, x, y, width, height);
  ImGui::PopStyleVar();
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  if (ImGui::InvisibleButton("##open", {width, height})) toggle_panel(number);
  const bool over = ImGui::IsItemHovered();
  const bool open = drawer_ == number;
  help_tooltip(fonts, fmt::format("{} ({}): folded, to leave room for the views. Click {}", title,
                                  keys_of(number == 1 ? Command::left_panel : Command::right_panel),
                                  open ? "to hide it" : "to show it over them"));
  ImDrawList& list = *ImGui::GetWindowDrawList();
  if (over || open)
    list.AddRectFilled(corner, {corner.x + width, corner.y + height}, colours().control);
  upright_label(fonts, list, {corner.x + width / 2, corner.y + px(16)}, title,
                over || open ? colours().ink : colours().secondary);
  ImGui::End();
}

void Workspace::draw_bottom_rail(float y, float width, float height) {
  if (begin_panel("##bottom-rail", 3, 0, y, width, height)) {
    const char* label = drawer_ == 3 ? "Hide text" : "Text";
    const float button = ImGui::CalcTextSize("Hide text").x + 2 * ImGui::GetStyle().FramePadding.x;
    draw_step_line(*this, button + px(16));
    ImGui::SameLine(width - button - ImGui::GetStyle().WindowPadding.x);
    if (ImGui::Button(label, {button, 0})) toggle_panel(3);
    help_tooltip(fonts, fmt::format("The tokens ({}): folded, to leave room for the views",
                                    keys_of(Command::bottom_panel)));
  }
  ImGui::End();
}

void Workspace::draw_drawer(float room, float top, float height) {
  const float rail = px(28);
  const float width = std::min(drawer_ == 1 ? px(256) : px(280), room - rail);
  const float text = std::min(px(160), height);
  const char* names[] = {"##left-drawer", "##right-drawer", "##bottom-drawer"};
  const ImVec2 at = drawer_ == 1   ? ImVec2{rail, top}
                    : drawer_ == 2 ? ImVec2{room - rail - width, top}
                                   : ImVec2{0, top + height - text};
  const ImVec2 size = drawer_ == 3 ? ImVec2{room, text} : ImVec2{width, height};
  ImGui::SetNextWindowPos(at);
  ImGui::SetNextWindowSize(size);
  drawing_keyboard_panel_ = keyboard_panel_ == drawer_;
  if (focus_drawer_ || (drawing_keyboard_panel_ && focus_keyboard_panel_)) {
    ImGui::SetNextWindowFocus();
    focus_drawer_ = focus_keyboard_panel_ = false;
  }
  ImGui::PushStyleColor(ImGuiCol_WindowBg, colours().panel);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGuiWindowFlags flags = ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                           ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoScrollWithMouse;
  if (!drawing_keyboard_panel_) flags |= ImGuiWindowFlags_NoNavInputs;
  ImGui::Begin(names[drawer_ - 1], nullptr, flags);
  ImGui::PopStyleVar();
  ImGui::PopStyleColor();
  if (drawer_ == 1) draw_trace_panel(*this);
  if (drawer_ == 2) draw_policy_panel(*this);
  if (drawer_ == 3) draw_token_lines(*this);
  ImGui::End();
}

void Workspace::draw_centre(float x, float y, float width, float height) {
  ImGui::SetNextWindowPos({x, y});
  ImGui::SetNextWindowSize({width, height});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {px(8), 0});
  ImGui::Begin(
      "##centre", nullptr,
      ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
          // The surface is paper already: filling it again is what a software renderer pays for.
          ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoBringToFrontOnFocus |
          ImGuiWindowFlags_NoNav | ImGuiWindowFlags_NoScrollWithMouse);
  ImGui::PopStyleVar();
  if (!notice.empty()) {
    ImGui::SetCursorPosY(px(4));
    ImGui::AlignTextToFramePadding();
    ImGui::PushStyleColor(ImGuiCol_Text, notice_is_error ? colours().error : colours().secondary);
    ImGui::PushTextWrapPos(width - px(88));
    ImGui::TextUnformatted(notice.c_str());
    ImGui::PopTextWrapPos();
    ImGui::PopStyleColor();
    ImGui::SameLine(width - px(72));
    if (ImGui::SmallButton("Dismiss")) notice.clear();
  }
  // A click beside a drawer puts it away.
  if (drawer_ != 0 && ImGui::IsMouseClicked(0) &&
      ImGui::IsWindowHovered(ImGuiHoveredFlags_AllowWhenBlockedByActiveItem))
    drawer_ = 0;
  if (results.trace() || results.evaluation()) {
    draw_tabs(width - px(16));
    draw_tiles(width - px(16), height - ImGui::GetCursorPosY() - px(8));
  } else if (!lessons.capturing()) {
    start_page.draw(*this);
  }
  ImGui::End();
}

std::vector<TileNeed> Workspace::tile_needs() const {
  std::vector<TileNeed> needs;
  for (int i = 0; i < state.tile_count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    needs.push_back(tiles[at].need(state.tiles[at], metrics, static_cast<double>(fonts.scale())));
  }
  return needs;
}

/// Where not all tiles are in sight: their names, and which are.
void Workspace::draw_tabs(float width) {
  tab_items_.clear();
  const auto count = static_cast<std::size_t>(state.tile_count);
  if (stage_.count >= count) return;
  const float spacing = ImGui::GetStyle().ItemSpacing.x;
  const float padding = ImGui::GetStyle().FramePadding.x;
  const float height = px(32);
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float most = (width - spacing * static_cast<float>(count - 1)) / static_cast<float>(count);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  ImGui::PushFont(fonts.secondary);
  float x = corner.x;
  for (std::size_t i = 0; i < count; ++i) {
    const figure::FigureInfo* view = find_view(state.tiles[i].view);
    const std::string whole = fmt::format("{}  {}", i + 1, view ? view->title : "");
    constexpr double kTextSize = 13.0;
    const std::string title =
        metrics.fit(whole, figure::Font::regular, kTextSize,
                    static_cast<double>((most - 2 * padding) / fonts.scale()));
    const float room = std::min(most, ImGui::CalcTextSize(title.c_str()).x + 2 * padding);
    const bool in_sight = i >= stage_.first && i < stage_.first + stage_.count;
    ImGui::SetCursorScreenPos({x, corner.y + (height - ImGui::GetFrameHeight()) / 2});
    ImGui::PushStyleColor(ImGuiCol_Button, 0);
    ImGui::PushStyleColor(ImGuiCol_Text, in_sight ? colours().ink : colours().secondary);
    ImGui::PushID(static_cast<int>(i));
    if (ImGui::Button((title + "###tab").c_str(), {room, 0}))
      state.active_tile = static_cast<int>(i);
    ImGui::PopID();
    ImGui::PopStyleColor(2);
    help_tooltip(
        fonts,
        whole + (in_sight ? "" : "\nHidden, because there is no room for all views. Click, or W"));
    const ImVec2 low = ImGui::GetItemRectMin();
    const ImVec2 high = ImGui::GetItemRectMax();
    tab_items_.push_back({static_cast<double>(low.x), static_cast<double>(low.y),
                          static_cast<double>(high.x - low.x),
                          static_cast<double>(high.y - low.y)});
    if (in_sight) list.AddRectFilled({low.x, high.y - px(2)}, {high.x, high.y}, colours().ink);
    x += room + spacing;
  }
  ImGui::PopFont();
  ImGui::SetCursorScreenPos({corner.x, corner.y + height});
}

void Workspace::draw_tiles(float width, float height) {
  const std::vector<TileNeed> needs = tile_needs();
  const auto shown = std::span(needs).subspan(stage_.first, stage_.count);
  const std::vector<figure::Rect> places =
      arrange_tiles(shown, static_cast<double>(width), static_cast<double>(height),
                    static_cast<double>(px(16)), static_cast<double>(Tile::header_height(fonts)))
          .places;
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const int active_before = state.active_tile;
  SharedSelection selection = state.selection;
  for (std::size_t nth = 0; nth < stage_.count; ++nth) {
    const int i = static_cast<int>(stage_.first + nth);
    const figure::Rect& place = places[nth];
    ImGui::SetCursorScreenPos(
        {corner.x + static_cast<float>(place.x), corner.y + static_cast<float>(place.y)});
    TileAsks asks;
    const TileContext context{results, state,   metrics, backend,   fonts,
                              step(),  hovered, hover,   selection, asks};
    ImGui::PushID(i);
    if (tiles[static_cast<std::size_t>(i)].draw(
            state.tiles[static_cast<std::size_t>(i)], context,
            {static_cast<float>(place.width), static_cast<float>(place.height)},
            stage_.count == 1 || i == active_before)) {
      state.active_tile = i;
    }
    ImGui::PopID();
    if (asks.explain) token_card.open(asks.at);
    if (asks.choose_view) {
      state.active_tile = i;
      palette.open_views(*this, &asks.at);
    }
  }
  state.selection = selection;
}

}  // namespace kvloupe::window
