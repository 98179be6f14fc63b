#pragma once
// A lesson for readers without the program: on paper, and as a web page.

#include <string>
#include <vector>

#include "analysis/base/core/progress.h"
#include "app/document/document.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::lesson {

struct WrittenLesson {
  std::string bytes;  // of the file
  /// The elements that could not be shown, one line each ("FILE:LINE: what is wrong"). The file
  /// shows the same line in place of the element.
  std::vector<std::string> problems;
};

/// PDF: A4 pages with the lesson's text and figures, drawn as in exports, text as text. Throws
/// Cancelled, WorkError if Cairo fails.
WrittenLesson make_handout(const Lesson& lesson, const LessonTraces& traces,
                           const figure::TextMetrics& fonts, Progress& progress);

/// HTML: the lesson's pages with their texts and figures as one file (app/document/document.h). A
/// page about steps gets a slider: everything that depends on the step is drawn for each step, or
/// for as many steps as keep the file small. `links`: beside the title. Throws Cancelled, WorkError
/// if it would be too large.
WrittenLesson make_web_page(const Lesson& lesson, const LessonTraces& traces,
                            const figure::TextMetrics& fonts, Progress& progress,
                            const std::vector<figure::document::Link>& links = {});

/// The steps of a slider, of `count` steps: at most `most`, including `wanted`, the first and the
/// last, evenly between.
std::vector<int> slider_steps(int count, int wanted, int most);

}  // namespace kvloupe::lesson
