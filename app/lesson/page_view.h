#pragma once
// A page on a trace: what the workspace shows, the figures of that, and the text with its numbers.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "analysis/progress.h"
#include "app/figure/figure_file.h"
#include "app/lesson/lesson.h"
#include "app/lesson/values.h"
#include "app/request/figure_request.h"

namespace kvloupe::lesson {

/// What of a view can be said without a trace.
struct CheckedView {
  bool step_slider = false;
};
/// Checks a view as it stands in a file, from `line` on. Throws TextError.
CheckedView check_view(const std::string& json, int line);

/// The traces of a lesson, with what was computed of them.
struct LessonTraces {
  std::shared_ptr<const Trace> trace;
  std::vector<std::shared_ptr<const Trace>> closed;  // in the lesson's order; may be fewer
  std::shared_ptr<ValueStore> store = std::make_shared<ValueStore>();
};

/// What `needs` asks for and the traces lack, in one line for a person; empty: nothing.
std::string missing_need(const Lesson& lesson, const LessonTraces& traces);

/// The workspace as a page wants it (its own view, or that of the page before it that has one), its
/// numbers filled in, its selection in range of the trace. Theme, colours and scale are the first
/// start's: they are the reader's. Throws FileError ("FILE:LINE: what is wrong"), Cancelled.
window::WorkspaceState page_workspace(const Lesson& lesson, std::size_t page,
                                      const LessonTraces& traces, Progress& progress);

/// What a page's numbers and condition are computed from.
LessonState lesson_state(const LessonTraces& traces, window::WorkspaceState workspace,
                         bool playing = false);

/// A value as it is printed; "–" for what is not known.
std::string formatted(const Value& value, Format format);

/// The text with its numbers filled in. What cannot be computed reads "–". Throws Cancelled.
RichText finished_text(const RichText& text, const LessonState& state, Progress& progress);

/// One figure of a page: what `kvloupe export` would be given for that tile.
struct PageFigure {
  const figure::FigureInfo* info = nullptr;
  request::FigureSettings settings;
  figure::FileOptions options;
};
/// The figures of the tiles that a workspace shows.
std::vector<PageFigure> page_figures(const window::WorkspaceState& workspace);

/// Makes it from the traces; a figure of two loops takes the first closed-loop run. Throws what
/// FigureService::make() throws, WorkError where a run is missing.
figure::MadeFigure make_figure(const PageFigure& figure, const LessonTraces& traces,
                               Progress& progress);

}  // namespace kvloupe::lesson
