#include "app/lesson/written_lesson.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "analysis/base/core/error.h"
#include "app/lesson/value_groups.h"
#include "version.h"

namespace kvloupe::lesson {

namespace document = figure::document;

namespace {

constexpr double kAlonePixels = 2.0;  // a point of a figure that stands alone on its page
constexpr double kPairPixels = 2.15;  // of one of two
constexpr double kNarrow = 340.0;     // points: a figure that is drawn for a column
constexpr double kHalf = 520.0;       // pixels: half a row
constexpr double kWidest = 1072.0;    // pixels

/// How much of its pictures a web page shows: less on the page of a large model or a long trace,
/// whose pictures as they are would exceed a page's size.
struct Detail {
  int most_steps;           // of a slider
  double pixels_per_point;  // of maps, several of which share the file
};
constexpr std::array kDetails{Detail{32, 2.0}, Detail{16, 1.5}, Detail{8, 1.0}, Detail{4, 0.75},
                              Detail{2, 0.5}};

/// The figure's own words, and the settings that they do not mention.
std::string caption_of(const figure::MadeFigure& made) {
  std::string caption = made.figure->caption();
  const auto find = [&](std::string_view wanted) {
    const auto found = std::find_if(made.settings.begin(), made.settings.end(),
                                    [&](const auto& one) { return one.first == wanted; });
    return found == made.settings.end() ? std::string() : found->second;
  };
  const std::string policy = find("policy"), policy_b = find("policy_b");
  if (policy.empty() || policy == "full") return caption;
  std::vector<std::string> words;
  if (caption.find(policy) == std::string::npos) words.push_back("policy " + policy);
  if (!policy_b.empty() && caption.find(policy_b) == std::string::npos)
    words.push_back("policy B " + policy_b);
  if (caption.find("N = ") == std::string::npos) words.push_back("budget " + find("budget"));
  if (words.empty()) return caption;
  std::string settings = fmt::format("{}.", fmt::join(words, ", "));
  settings.front() = settings.front() == 'p' ? 'P' : 'B';
  return caption + (caption.empty() ? "" : " ") + settings;
}

/// Makes a document of a lesson: for paper, or for a screen in some detail.
class Maker {
 public:
  Maker(const Lesson& lesson, const LessonTraces& traces, const figure::TextMetrics& fonts,
        std::optional<Detail> screen, Progress& progress)
      : lesson_(lesson), traces_(traces), fonts_(fonts), screen_(screen), progress_(progress) {}

  document::Document make() {
    document_.title = lesson_.title;
    document_.summary = lesson_.summary;
    for (std::size_t i = 0; i < lesson_.pages.size(); ++i) add_section(i);
    if (!lesson_.error.empty() && !document_.sections.empty())
      add_problem(document_.sections.front(), lesson_.error);
    const Trace& trace = *traces_.trace;
    const std::string file = trace.path().filename().string();
    document_.foot =
        fmt::format("Trace {} · model {} · kvloupe {}", file, trace.model().name, KVLOUPE_VERSION);
    document_.metadata = {{"lesson", lesson_.name},
                          {"trace", file},
                          {"model", trace.model().name},
                          {"version", "kvloupe " KVLOUPE_VERSION}};
    return std::move(document_);
  }
  std::vector<std::string> problems() { return std::move(problems_); }

 private:
  void add_section(std::size_t index) {
    progress_.check();
    const Page& page = lesson_.pages[index];
    document::Section section{.title = page.title};
    if (!page.error.empty()) add_problem(section, page.error);
    try {
      const LessonState state =
          lesson_state(traces_, page_workspace(lesson_, index, traces_, progress_));
      section.text = blocks_of(finished_text(page.text, state, progress_));
      if (!page.view_json.empty()) add_figures(section, page, state);
      if (page.task) section.task = blocks_of(finished_text(page.task->text, state, progress_));
    } catch (const FileError& error) {
      add_problem(section, error.what());
    }
    document_.sections.push_back(std::move(section));
  }

  void add_problem(document::Section& section, const std::string& problem) {
    problems_.push_back(problem);
    section.problems.push_back(problem);
  }

  void add_figures(document::Section& section, const Page& page, const LessonState& state) {
    if (screen_ && page.step_slider) add_slider(section, state);
    for (const PageFigure& figure : page_figures(state.workspace)) {
      ++figures_;
      const auto say = [&](const std::exception& error) {
        add_problem(section, at_line(lesson_.path, page.view_line, error.what()));
      };
      try {
        section.figures.push_back(screen_ ? drawn(figure, section) : made(figure));
      } catch (const UsageError& error) {
        say(error);
      } catch (const WorkError& error) {
        say(error);
      }
    }
    if (!screen_) return;
    for (document::PageFigure& one : section.figures) {  // two in a row
      const double width = one.pictures.front().light.width;
      if (width < kNarrow) one.width_px = std::min(kHalf, width * kPairPixels);
    }
    if (section.figures.size() == 1) {
      document::PageFigure& alone = section.figures.front();
      alone.width_px = std::min(kWidest, alone.pictures.front().light.width * kAlonePixels);
    }
  }

  void add_slider(document::Section& section, const LessonState& state) const {
    const auto blocks = blocks_of(state);
    const int wanted = step_of(state, blocks);
    section.slider_steps =
        slider_steps(static_cast<int>(blocks.size()), wanted, screen_->most_steps);
    const auto at = std::find(section.slider_steps.begin(), section.slider_steps.end(), wanted);
    section.slider_at = static_cast<std::size_t>(at - section.slider_steps.begin());
  }

  document::PageFigure made(const PageFigure& figure) {
    document::PageFigure one{.info = figure.info,
                             .made = make_figure(figure, traces_, progress_),
                             .options = figure.options,
                             .number = figures_};
    one.caption = caption_of(one.made);
    return one;
  }

  /// With a picture for each of the slider's steps where it depends on the step.
  document::PageFigure drawn(const PageFigure& figure, const document::Section& section) {
    figure::FileOptions options = figure.options;
    options.pixels_per_point = screen_->pixels_per_point;
    const auto of_step = [&](const PageFigure& one) {
      return document::page_figure(*one.info, make_figure(one, traces_, progress_), options,
                                   fonts_);
    };
    if (section.slider_steps.empty() || !needs_of(*figure.info, figure.settings.choices).step)
      return of_step(figure);
    document::PageFigure all;
    for (std::size_t s = 0; s < section.slider_steps.size(); ++s) {
      progress_.check();
      PageFigure one = figure;
      one.settings.step = section.slider_steps[s];
      document::PageFigure part = of_step(one);
      if (s == 0) {
        all = std::move(part);
        continue;
      }
      if (s == section.slider_at) all.settings = part.settings;
      all.pictures.push_back(std::move(part.pictures.front()));
    }
    return all;
  }

  const Lesson& lesson_;
  const LessonTraces& traces_;
  const figure::TextMetrics& fonts_;
  std::optional<Detail> screen_;
  Progress& progress_;
  document::Document document_;
  std::vector<std::string> problems_;
  int figures_ = 0;
};

}  // namespace

std::vector<int> slider_steps(int count, int wanted, int most) {
  std::vector<int> steps;
  const int kept = std::min(count, std::max(2, most));
  for (int i = 0; i < kept; ++i) {
    steps.push_back(kept == 1 ? 0
                              : static_cast<int>(std::lround(static_cast<double>(i) * (count - 1) /
                                                             (kept - 1))));
  }
  // The wanted one takes the place of its nearest, which is neither end.
  if (wanted > 0 && wanted < count - 1 && kept > 2) {
    const auto nearest = std::min_element(steps.begin() + 1, steps.end() - 1, [&](int a, int b) {
      return std::abs(a - wanted) < std::abs(b - wanted);
    });
    *nearest = wanted;
  }
  return steps;
}

WrittenLesson make_handout(const Lesson& lesson, const LessonTraces& traces,
                           const figure::TextMetrics& fonts, Progress& progress) {
  Maker maker(lesson, traces, fonts, std::nullopt, progress);
  return {document::write_paper(maker.make(), document::kHandoutLook, fonts), maker.problems()};
}

WrittenLesson make_web_page(const Lesson& lesson, const LessonTraces& traces,
                            const figure::TextMetrics& fonts, Progress& progress,
                            const std::vector<document::Link>& links) {
  for (const Detail& detail : kDetails) {
    try {
      Maker maker(lesson, traces, fonts, detail, progress);
      document::Document page = maker.make();
      page.links = links;
      return {document::write_page(page), maker.problems()};
    } catch (const document::PageTooLarge&) {
      if (&detail == &kDetails.back()) throw;
    }
  }
  throw std::logic_error("no detail of a web page");
}

}  // namespace kvloupe::lesson
