#pragma once
// A page on a trace: the workspace's view, its figures, and the text with its numbers.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "app/demo/demo_trace.h"
#include "app/document/figure_file.h"
#include "app/lesson/lesson.h"
#include "app/lesson/values.h"
#include "app/request/figure_request.h"

namespace kvloupe::lesson {

/// Checks a view from a file, as far as possible without a trace; it begins at `line`. Whether it
/// has a slider of steps. Throws TextError.
bool check_view(const std::string& json, int line);

/// The traces of a lesson, with the results computed from them.
struct LessonTraces {
  std::shared_ptr<const Trace> trace;
  std::vector<std::shared_ptr<const Trace>> closed;  // in the lesson's order; may be fewer
  std::shared_ptr<ValueStore> store = std::make_shared<ValueStore>();
};

/// The first requirement of `needs` that the traces do not meet, in one line for a person; empty:
/// all are met.
std::string missing_need(const Lesson& lesson, const LessonTraces& traces);

/// The workspace of a page (with its own view, or that of the last page before it that has one),
/// its numbers filled in, its selection in range of the trace. Theme, colours and scale are those
/// of the first start, because the reader sets them. Throws FileError ("FILE:LINE: what is wrong"),
/// Cancelled.
window::WorkspaceState page_workspace(const Lesson& lesson, std::size_t page,
                                      const LessonTraces& traces, Progress& progress);

/// The inputs of a page's numbers and condition.
LessonState lesson_state(const LessonTraces& traces, window::WorkspaceState workspace,
                         bool playing = false);

/// A value as printed; "–" if it is not known.
std::string formatted(const Value& value, Format format);

/// The text with its numbers filled in, and without the pieces whose conditions do not hold. A
/// value that cannot be computed reads "–", a condition that cannot is not met. Throws Cancelled.
RichText finished_text(const RichText& text, const LessonState& state, Progress& progress);

/// One figure of a page: the inputs of `kvloupe export` for that tile.
struct PageFigure {
  const figure::FigureInfo* info = nullptr;
  request::FigureSettings settings;
  figure::FileOptions options;
};
/// The figures of the tiles that a workspace shows.
std::vector<PageFigure> page_figures(const window::WorkspaceState& workspace);

/// Makes the figure from the traces; a figure of two loops uses the first closed-loop run. Throws
/// what FigureService::make() throws, WorkError if a run is missing.
figure::MadeFigure make_figure(const PageFigure& figure, const LessonTraces& traces,
                               Progress& progress);

/// The runs of the demo model that a lesson is written for: with the full cache, then its
/// closed-loop runs, in its order.
std::vector<demo::DemoRun> own_runs(const Lesson& lesson);

/// Their traces, captured if they do not exist yet. Throws what demo::demo_trace() throws.
LessonTraces own_traces(const Lesson& lesson, Progress& progress);

}  // namespace kvloupe::lesson
