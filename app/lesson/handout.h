#pragma once

#include <string>
#include <vector>

#include "analysis/progress.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::lesson {

/// A lesson on paper.
struct Handout {
  std::string pdf;
  /// The elements that could not be shown, one line each ("FILE:LINE: what is wrong"). The handout
  /// shows the same line in place of the element.
  std::vector<std::string> problems;
};

/// A4 pages with the lesson's text and figures, drawn as in exports, text as text. Throws
/// Cancelled, WorkError if Cairo fails.
Handout make_handout(const Lesson& lesson, const LessonTraces& traces,
                     const figure::TextMetrics& fonts, Progress& progress);

}  // namespace kvloupe::lesson
