#pragma once

#include <vector>

#include "analysis/progress.h"
#include "app/demo/demo_trace.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"

namespace kvloupe::lesson {

/// The runs of the demo model that a lesson is written for: with the full cache, then its
/// closed-loop runs, in its order.
std::vector<demo::DemoRun> own_runs(const Lesson& lesson);

/// Their traces, captured if they do not exist yet. Throws what demo::demo_trace() throws.
LessonTraces own_traces(const Lesson& lesson, Progress& progress);

}  // namespace kvloupe::lesson
