#include "app/lesson/web_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "analysis/error.h"
#include "app/export/figure_file.h"
#include "app/export/page.h"
#include "app/lesson/value_groups.h"

namespace kvloupe::lesson {

namespace html = figure::html;

namespace {

constexpr double kAlonePixels = 2.0;  // a point of a figure that stands alone on its page
constexpr double kPairPixels = 2.15;  // of one of two
constexpr double kNarrow = 340.0;     // points: a figure that is drawn for a column
constexpr double kHalf = 520.0;       // pixels: half a row
constexpr double kWidest = 1072.0;    // pixels

/// How much of its pictures a page shows: less on the page of a large model or a long trace, whose
/// pictures as they are would exceed a page's size.
struct Detail {
  int most_steps;           // of a slider
  double pixels_per_point;  // of maps, several of which share the file
};
constexpr std::array kDetails{Detail{32, 2.0}, Detail{16, 1.5}, Detail{8, 1.0}, Detail{4, 0.75},
                              Detail{2, 0.5}};

std::vector<html::TextBlock> blocks_of(const RichText& text) {
  std::vector<html::TextBlock> blocks;
  for (const Block& block : text) {
    html::TextBlock out;
    out.kind = block.kind == BlockKind::bullet     ? html::TextBlock::Kind::bullet
               : block.kind == BlockKind::numbered ? html::TextBlock::Kind::numbered
                                                   : html::TextBlock::Kind::paragraph;
    for (const Run& run : block.runs)
      out.runs.push_back({run.text, run.bold, run.italic, run.code, run.link});
    blocks.push_back(std::move(out));
  }
  return blocks;
}

class Maker {
 public:
  Maker(const Lesson& lesson, const LessonTraces& traces, const figure::TextMetrics& fonts,
        Detail detail, Progress& progress)
      : lesson_(lesson), traces_(traces), fonts_(fonts), detail_(detail), progress_(progress) {}

  WebPage make() {
    page_.title = lesson_.title;
    page_.summary = lesson_.summary;
    for (std::size_t i = 0; i < lesson_.pages.size(); ++i) add_section(i);
    if (!lesson_.error.empty() && !page_.sections.empty())
      add_problem(page_.sections.front(), lesson_.error);
    return {html::write_page(page_), std::move(problems_)};
  }

 private:
  void add_section(std::size_t index) {
    progress_.check();
    const Page& page = lesson_.pages[index];
    html::Section section;
    section.title = page.title;
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
    page_.sections.push_back(std::move(section));
  }

  void add_problem(html::Section& section, const std::string& problem) {
    problems_.push_back(problem);
    section.problems.push_back(problem);
  }

  void add_figures(html::Section& section, const Page& page, const LessonState& state) {
    const std::vector<PageFigure> figures = page_figures(state.workspace);
    if (page.step_slider) add_slider(section, state);
    for (const PageFigure& figure : figures) {
      try {
        section.figures.push_back(drawn(figure, section));
      } catch (const UsageError& error) {
        add_problem(section, at_line(lesson_.path, page.view_line, error.what()));
      } catch (const WorkError& error) {
        add_problem(section, at_line(lesson_.path, page.view_line, error.what()));
      }
    }
    for (html::PageFigure& one : section.figures) {  // two in a row
      const double width = one.pictures.front().light.width;
      if (width < kNarrow) one.width_px = std::min(kHalf, width * kPairPixels);
    }
    if (section.figures.size() == 1) {
      html::PageFigure& alone = section.figures.front();
      alone.width_px = std::min(kWidest, alone.pictures.front().light.width * kAlonePixels);
    }
  }

  void add_slider(html::Section& section, const LessonState& state) const {
    const auto blocks = blocks_of(state);
    const int wanted = step_of(state, blocks);
    section.slider_steps =
        slider_steps(static_cast<int>(blocks.size()), wanted, detail_.most_steps);
    const auto at = std::find(section.slider_steps.begin(), section.slider_steps.end(), wanted);
    section.slider_at = static_cast<std::size_t>(at - section.slider_steps.begin());
  }

  /// With a picture for each of the slider's steps where it depends on the step.
  html::PageFigure drawn(const PageFigure& figure, const html::Section& section) {
    figure::FileOptions options = figure.options;
    options.pixels_per_point = detail_.pixels_per_point;
    const auto of_step = [&](const PageFigure& one) {
      const figure::MadeFigure made = make_figure(one, traces_, progress_);
      return html::page_figure(*one.info, made, options, fonts_);
    };
    if (section.slider_steps.empty() || !needs_of(*figure.info, figure.settings.choices).step)
      return of_step(figure);
    html::PageFigure all;
    for (std::size_t s = 0; s < section.slider_steps.size(); ++s) {
      progress_.check();
      PageFigure one = figure;
      one.settings.step = section.slider_steps[s];
      html::PageFigure part = of_step(one);
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
  Detail detail_;
  Progress& progress_;
  html::Page page_;
  std::vector<std::string> problems_;
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

WebPage make_web_page(const Lesson& lesson, const LessonTraces& traces,
                      const figure::TextMetrics& fonts, Progress& progress) {
  for (const Detail& detail : kDetails) {
    try {
      return Maker(lesson, traces, fonts, detail, progress).make();
    } catch (const html::PageTooLarge&) {
      if (&detail == &kDetails.back()) throw;
    }
  }
  throw std::logic_error("no detail of a web page");
}

}  // namespace kvloupe::lesson
