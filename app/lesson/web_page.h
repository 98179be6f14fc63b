#pragma once

#include <string>
#include <vector>

#include "analysis/progress.h"
#include "app/figure/text_metrics.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"

namespace kvloupe::lesson {

/// A lesson for readers without the program.
struct WebPage {
  std::string html;
  /// What could not be shown, one line each ("FILE:LINE: what is wrong"); the same stands on the
  /// page in its place.
  std::vector<std::string> problems;
};

/// The lesson's pages with their texts and figures as one file (app/figure/html/page.h). A page
/// that is about steps gets a slider: what depends on the step is drawn at each of them, or at so
/// many that the file stays small. Throws Cancelled, WorkError where it would be too large.
WebPage make_web_page(const Lesson& lesson, const LessonTraces& traces,
                      const figure::TextMetrics& fonts, Progress& progress);

/// Which of `count` steps a slider goes through: at most `most`, `wanted` among them, the first and
/// the last too, evenly between.
std::vector<int> slider_steps(int count, int wanted, int most);

}  // namespace kvloupe::lesson
