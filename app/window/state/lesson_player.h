#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/demo/demo_trace.h"
#include "app/job/computed.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"
#include "app/session/state.h"
#include "app/window/state/jobs.h"

namespace kvloupe::window {

class Results;
struct PanelContext;

/// An open lesson, without its panel: its traces, the page and its view, the numbers of its text,
/// and whether its task is done. Long work runs in the background.
class LessonPlayer {
 public:
  LessonPlayer(std::function<void()> wake, demo::DemoPlaces places);

  using List = std::vector<lesson::Lesson>;
  /// The lessons that come with the program; nullptr while they are being read.
  std::shared_ptr<const List> list();
  /// Why they cannot be read; empty if they can.
  std::string list_error() const { return list_.error(); }

  /// Opens a lesson at its first page, on the given traces (the one to show first, then its
  /// closed-loop runs), or on its own, which are captured if they do not exist yet.
  void open(lesson::Lesson lesson, std::vector<TracePointer> given = {});
  /// The same by name, from the list. Its file is read again, because its author may be editing it.
  void open(const std::string& name);
  void close();
  bool is_open() const { return lesson_.has_value(); }
  /// The next lesson of the list; nothing after the last.
  std::optional<lesson::Lesson> next_lesson() const;

  /// The open lesson, and numbers of its pages.
  const lesson::Lesson& lesson() const { return *lesson_; }
  int page_count() const { return static_cast<int>(lesson_->pages.size()); }
  int page() const { return page_; }
  /// nullptr if the lesson has none at all.
  const lesson::Page* shown_page() const;
  void turn_to(int page);

  /// The page's text and task with their numbers; as in the file until the numbers are known.
  const lesson::RichText& text() const;
  const lesson::RichText& task_text() const;
  /// The error of the page or its view, in one line; empty: none.
  std::string page_error() const;
  /// Why the lesson's trace is not there; empty if it is, or is being captured.
  const std::string& trace_error() const { return trace_error_; }
  bool capturing() const { return demo_.running(); }
  /// 0 to 1 while capturing.
  double fraction() const { return demo_.fraction(); }

  /// Whether the task of a page has been done since the program began.
  bool is_met(int page) const;
  /// Whether the reader has changed the page's view.
  bool view_changed(const WorkspaceState& state, const Results& results) const;
  void return_to_view() { view_wanted_ = true; }

  /// Call once per frame, before the window follows its state: shows the lesson's trace, and the
  /// page's view when it is ready.
  void lead(const PanelContext& context);
  /// Call once per frame, when the state is in the range of the trace: checks whether the task is
  /// done.
  void follow(const PanelContext& context);
  /// Whether something is still being computed.
  bool busy() const;

 private:
  /// A page with its computed content.
  struct Prepared {
    std::optional<WorkspaceState> view;  // nothing: what is wrong with it stands in `error`
    std::string error;
    bool has_text = false;
    lesson::RichText text, task;
  };

  void load(bool again = false);
  void open_wanted(const PanelContext& context);
  void take_traces();
  bool can_prepare() const;
  void prepare(const PanelContext& context);
  void show_view(const PanelContext& context);
  void check_task(const PanelContext& context);
  static Prepared prepare_page(const lesson::Lesson& lesson, int page,
                               const lesson::LessonTraces& traces, Progress& progress,
                               const job::Computed<Prepared>::Publish& publish);

  demo::DemoPlaces places_;
  DemoJob demo_;
  job::JobQueue queue_;
  job::Computed<List> list_;
  job::Computed<Prepared> page_job_;
  /// All that a page's condition may depend on.
  struct TaskKey {
    long opened = 0;
    int page = 0;
    WorkspaceState state;
    bool playing = false;
    bool operator==(const TaskKey&) const = default;
  };
  job::Computed<bool, TaskKey> task_job_;

  long loads_ = 0;      // of the list
  std::string wanted_;  // of the list, once it is there
  std::optional<lesson::Lesson> lesson_;
  long opened_ = 0;              // how many lessons so far
  lesson::LessonTraces traces_;  // of this one; its trace is null until it is there
  std::string trace_error_;
  int page_ = 0;
  std::shared_ptr<const Prepared> prepared_;  // of the page; nullptr until it is there
  bool view_wanted_ = false;
  bool just_applied_ = false;                 // in this frame
  std::optional<WorkspaceState> applied_;     // the page's view, as the window first had it
  std::map<std::string, std::set<int>> met_;  // pages by lesson
};

}  // namespace kvloupe::window
