#include "app/window/state/lesson_player.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "analysis/base/core/error.h"
#include "app/lesson/page_view.h"
#include "app/window/state/panel_context.h"

namespace kvloupe::window {

namespace {

constexpr auto kRest = std::chrono::milliseconds(150);  // a hand that drags has stopped

/// The reader's own choices, which no page changes.
void keep_readers_own(WorkspaceState& state, const WorkspaceState& reader) {
  state.theme = reader.theme;
  state.amounts = reader.amounts;
  state.scale = reader.scale;
  state.patterns = reader.patterns;
}

/// Whether two states show the same. Which tile is active is no matter of the page.
bool same_view(WorkspaceState a, const WorkspaceState& b) {
  keep_readers_own(a, b);
  a.active_tile = b.active_tile;
  return a == b;
}

}  // namespace

LessonPlayer::LessonPlayer(std::function<void()> wake, demo::DemoPlaces places)
    : places_(std::move(places)), demo_(wake), queue_(1, std::move(wake)) {}

std::shared_ptr<const LessonPlayer::List> LessonPlayer::list() {
  load();
  return list_.value();
}

void LessonPlayer::load(bool again) {
  if (loads_ > 0 && !again) return;
  list_.request(queue_, std::to_string(++loads_), [places = places_](Progress&, const auto&) {
    return places.assets.empty() ? lesson::find_lessons()
                                 : lesson::find_lessons(places.assets / "lessons");
  });
}

void LessonPlayer::open(lesson::Lesson lesson, std::vector<TracePointer> given) {
  close();
  lesson_ = std::move(lesson);
  ++opened_;
  if (!given.empty()) {
    traces_.trace = given.front();
    traces_.closed.assign(given.begin() + 1, given.end());
    trace_error_ = lesson::missing_need(*lesson_, traces_);
  } else {
    demo_.start(lesson::own_runs(*lesson_), places_);
  }
  turn_to(0);
}

void LessonPlayer::open(const std::string& name) {
  wanted_ = name;
  load(true);
}

void LessonPlayer::close() {
  demo_.cancel();
  page_job_.clear();
  task_job_.clear();
  lesson_.reset();
  traces_ = {};
  trace_error_.clear();
  wanted_.clear();
  applied_.reset();
  view_wanted_ = false;
  page_ = 0;
}

std::optional<lesson::Lesson> LessonPlayer::next_lesson() const {
  const auto list = list_.value();
  if (!list || !lesson_) return std::nullopt;
  const auto found = std::find_if(list->begin(), list->end(), [&](const lesson::Lesson& one) {
    return one.path == lesson_->path;
  });
  if (found == list->end() || found + 1 == list->end()) return std::nullopt;
  return *(found + 1);
}

const lesson::Page* LessonPlayer::shown_page() const {
  return lesson_->pages.empty() ? nullptr : &lesson_->pages[static_cast<std::size_t>(page_)];
}

void LessonPlayer::turn_to(int page) {
  if (!lesson_) return;
  page_ = std::clamp(page, 0, std::max(0, page_count() - 1));
  page_job_.clear();
  task_job_.clear();
  prepared_.reset();
  applied_.reset();
  view_wanted_ = true;
}

bool LessonPlayer::can_prepare() const {
  return lesson_ && traces_.trace && trace_error_.empty() && shown_page();
}

LessonPlayer::Prepared LessonPlayer::prepare_page(const lesson::Lesson& lesson, int page,
                                                  const lesson::LessonTraces& traces,
                                                  Progress& progress,
                                                  const job::Computed<Prepared>::Publish& publish) {
  const auto at = static_cast<std::size_t>(page);
  const lesson::Page& shown = lesson.pages[at];
  Prepared prepared;
  try {
    prepared.view = lesson::page_workspace(lesson, at, traces, progress);
  } catch (const Cancelled&) {
    throw;
  } catch (const std::exception& problem) {
    prepared.error = problem.what();
    prepared.text = lesson::without_numbers(shown.text);
    if (shown.task) prepared.task = lesson::without_numbers(shown.task->text);
    prepared.has_text = true;
    return prepared;
  }
  publish(prepared);  // what is seen first
  const lesson::LessonState state = lesson::lesson_state(traces, *prepared.view);
  prepared.text = lesson::finished_text(shown.text, state, progress);
  if (shown.task) prepared.task = lesson::finished_text(shown.task->text, state, progress);
  prepared.has_text = true;
  return prepared;
}

/// Asks for the page's view and numbers, where the traces are there.
void LessonPlayer::prepare(const PanelContext& c) {
  if (!can_prepare()) return;
  if (page_job_.key().empty()) {
    // The window's own replays serve the numbers, too.
    if (!traces_.store || traces_.store->shared_figures() != c.results.figures())
      traces_.store = std::make_shared<lesson::ValueStore>(c.results.figures());
    page_job_.request(queue_, fmt::format("{}#{}", opened_, page_),
                      [lesson = *lesson_, page = page_, traces = traces_](Progress& progress,
                                                                          const auto& publish) {
                        return prepare_page(lesson, page, traces, progress, publish);
                      });
  }
  prepared_ = page_job_.current();
}

const lesson::RichText& LessonPlayer::text() const {
  static const lesson::RichText kNothing;
  const lesson::Page* page = shown_page();
  if (!page) return kNothing;
  return prepared_ && prepared_->has_text ? prepared_->text : page->text;
}

const lesson::RichText& LessonPlayer::task_text() const {
  static const lesson::RichText kNothing;
  const lesson::Page* page = shown_page();
  if (!page || !page->task) return kNothing;
  return prepared_ && prepared_->has_text ? prepared_->task : page->task->text;
}

std::string LessonPlayer::page_error() const {
  const lesson::Page* page = shown_page();
  if (!page) return {};
  if (!page->error.empty()) return page->error;
  return prepared_ && !prepared_->error.empty() ? prepared_->error : page_job_.error();
}

bool LessonPlayer::is_met(int page) const {
  if (!lesson_) return false;
  const auto found = met_.find(lesson_->path.string());
  return found != met_.end() && found->second.contains(page);
}

bool LessonPlayer::view_changed(const WorkspaceState& state, const Results& results) const {
  if (!lesson_ || !traces_.trace || view_wanted_) return false;
  if (results.trace() != traces_.trace) return true;
  return applied_ && !same_view(*applied_, state);
}

bool LessonPlayer::busy() const {
  if (demo_.running() || !wanted_.empty()) return true;
  if (!list_.key().empty() && list_.computing()) return true;
  if (!can_prepare()) return false;
  return page_job_.computing() || task_job_.computing() || (view_wanted_ && page_error().empty());
}

void LessonPlayer::open_wanted(const PanelContext& c) {
  if (wanted_.empty() || list_.computing()) return;
  const std::string name = std::exchange(wanted_, {});
  if (const auto list = list_.current()) {
    for (const lesson::Lesson& one : *list) {
      if (one.name == name) return open(one);
    }
    c.fail("Lesson " + name + ": this lesson is no longer in the list");
  } else {
    c.fail("Lessons: " + list_.error());
  }
}

void LessonPlayer::lead(const PanelContext& c) {
  load();
  open_wanted(c);
  if (!lesson_) return;
  take_traces();
  prepare(c);
  show_view(c);
}

void LessonPlayer::follow(const PanelContext& c) {
  if (!lesson_) return;
  if (std::exchange(just_applied_, false)) applied_ = c.state;
  check_task(c);
}

void LessonPlayer::take_traces() {
  const auto outcome = demo_.take();
  if (!outcome) return;
  trace_error_ = outcome->error;
  if (!trace_error_.empty()) return;
  traces_.trace = outcome->traces.front();
  traces_.closed.assign(outcome->traces.begin() + 1, outcome->traces.end());
}

void LessonPlayer::show_view(const PanelContext& c) {
  if (!view_wanted_ || !traces_.trace) return;
  if (c.results.trace() != traces_.trace) {
    if (c.results.opening()) return;
    for (const TracePointer& closed : traces_.closed) c.results.keep(closed);
    c.ask(ShowTrace{traces_.trace});
    return;
  }
  if (!c.shown.is_of_open_trace() || !prepared_ || !prepared_->view) return;
  WorkspaceState view = *prepared_->view;
  keep_readers_own(view, c.state);
  view.trace = c.state.trace;
  c.ask(TakeState{std::move(view)});
  view_wanted_ = false;
  just_applied_ = true;
}

void LessonPlayer::check_task(const PanelContext& c) {
  const lesson::Page* page = shown_page();
  if (!page || !page->task || page->task->when.empty() || is_met(page_)) return;
  if (!applied_ || view_wanted_ || c.results.trace() != traces_.trace)
    return task_job_.clear();  // nothing asks for it again
  const auto met = [&] { met_[lesson_->path.string()].insert(page_); };
  if (page->task->when.is_quick()) {
    Progress progress;
    try {
      const lesson::LessonState state = lesson::lesson_state(traces_, c.state, c.playing);
      if (lesson::is_met(page->task->when, state, progress)) met();
    } catch (const std::exception&) {  // a state on its way: the next frame sees
    }
    return;
  }
  task_job_.request(
      queue_, TaskKey{opened_, page_, c.state, c.playing},
      [when = page->task->when, state = lesson::lesson_state(traces_, c.state, c.playing)](
          Progress& progress, const auto&) { return lesson::is_met(when, state, progress); },
      kRest, decltype(task_job_)::Until::end);
  if (const auto value = task_job_.current(); value && *value) met();
}

}  // namespace kvloupe::window
