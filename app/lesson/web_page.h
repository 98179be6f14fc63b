#pragma once

#include <string>
#include <vector>

#include "analysis/progress.h"
#include "app/lesson/lesson.h"
#include "app/lesson/page_view.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::lesson {

/// A lesson for readers without the program.
struct WebPage {
  std::string html;
  /// The elements that could not be shown, one line each ("FILE:LINE: what is wrong"). The page
  /// shows the same line in place of the element.
  std::vector<std::string> problems;
};

/// The lesson's pages with their texts and figures as one file (app/export/page.h). A page
/// about steps gets a slider: everything that depends on the step is drawn for each step, or for as
/// many steps as keep the file small. Throws Cancelled, WorkError if it would be too large.
WebPage make_web_page(const Lesson& lesson, const LessonTraces& traces,
                      const figure::TextMetrics& fonts, Progress& progress);

/// The steps of a slider, of `count` steps: at most `most`, including `wanted`, the first and the
/// last, evenly between.
std::vector<int> slider_steps(int count, int wanted, int most);

}  // namespace kvloupe::lesson
