#include "app/lesson/handout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "analysis/error.h"
#include "app/lesson/set_text.h"
#include "app/plot/frame.h"
#include "version.h"

namespace kvloupe::lesson {

using figure::Font;
using figure::Scene;

namespace {

// In points.
constexpr PaperForm kForm{
    .side = 56.0, .top = 64.0, .bottom = 66.0, .foot_line = 22.0, .foot_text = 13.0, .small = 7.5};
constexpr double kWidth = kForm.width();
constexpr double kRoom = kForm.room();
constexpr double kTextWidth = 430.0;  // longer lines are hard to read

constexpr double kNarrowFigure = 330.0;  // one that is drawn for a column stands alone
constexpr double kColumnGap = 18.0;
constexpr double kHighest = 300.0;      // a figure
constexpr double kHighestPair = 250.0;  // two side by side

/// A page of the lesson, or a part of one, as a sequence of chunks.
struct Section {
  std::string title;
  std::vector<Chunk> chunks;

  double height() const {
    double sum = 0.0;
    for (const Chunk& chunk : chunks) sum += chunk.before + chunk.fragment.height;
    return sum;
  }
};

figure::Path rounded(const figure::Rect& r, double radius) {
  constexpr double kArc = 0.5523;  // a quarter of a circle as a curve
  const double c = radius * (1.0 - kArc);
  figure::Path path;
  path.move({r.x + radius, r.y})
      .line({r.right() - radius, r.y})
      .curve({r.right() - c, r.y}, {r.right(), r.y + c}, {r.right(), r.y + radius})
      .line({r.right(), r.bottom() - radius})
      .curve({r.right(), r.bottom() - c}, {r.right() - c, r.bottom()},
             {r.right() - radius, r.bottom()})
      .line({r.x + radius, r.bottom()})
      .curve({r.x + c, r.bottom()}, {r.x, r.bottom() - c}, {r.x, r.bottom() - radius})
      .line({r.x, r.y + radius})
      .curve({r.x, r.y + c}, {r.x + c, r.y}, {r.x + radius, r.y})
      .close();
  return path;
}

/// A figure of a page, or why there is none.
struct Made {
  PageFigure tile;
  std::optional<figure::MadeFigure> made;
  std::string problem;
  int number = 0;
  bool narrow = false;
};

/// Puts the lesson together: sections, then pages.
class Maker : Paper {
 public:
  Maker(const Lesson& lesson, const LessonTraces& traces, const figure::TextMetrics& fonts,
        Progress& progress)
      : Paper(kForm, fonts), lesson_(lesson), traces_(traces), progress_(progress) {}

  Handout make() {
    add_title();
    for (std::size_t i = 0; i < lesson_.pages.size(); ++i) add_section(i);
    finish_pages();
    return {figure::write_pdf(pages_, fonts_), std::move(problems_)};
  }

 private:
  static TextLook look(double size, double leading, figure::Colour colour, bool bold = false) {
    return {.size = size, .leading = leading, .colour = colour, .bold = bold};
  }
  TextLook body() const { return look(10.0, 15.0, style_.colours.ink); }

  // --- laying out a page of the lesson

  void add_title() {
    new_page();
    Section head;
    head.chunks.push_back(
        {text(lesson_.title, look(23.0, 29.0, style_.colours.ink, true), kWidth), 0.0, true});
    if (!lesson_.summary.empty()) {
      head.chunks.push_back(
          {text(lesson_.summary, look(11.0, 16.5, style_.colours.faint), kTextWidth), 8.0, true});
    }
    Fragment line;
    line.items.emplace_back(figure::make_line({0.0, 0.0}, {kWidth, 0.0}, style_.colours.grid, 0.8));
    line.height = 1.0;
    head.chunks.push_back({std::move(line), 14.0, false});
    if (!lesson_.error.empty()) add_problem(head, lesson_.error);
    for (Chunk& chunk : head.chunks) Paper::place(std::move(chunk));
  }

  void add_section(std::size_t index) {
    progress_.check();
    const Page& page = lesson_.pages[index];
    Section section;
    section.title = page.title;
    const TextLook heading = look(14.0, 18.0, style_.colours.ink, true);
    Fragment title;
    const std::string number = fmt::format("{}", index + 1);
    figure::Text digit =
        figure::make_text(style_, number, {0.0, 0.78 * heading.leading}, heading.size, Font::bold);
    digit.colour = style_.colours.retained;
    const double indent = digit.width + 9.0;
    title.items.emplace_back(std::move(digit));
    title.add(text(page.title, heading, kWidth - indent), {indent, 0.0});
    section.chunks.push_back({std::move(title), 26.0, true});
    if (!page.error.empty()) add_problem(section, page.error);
    std::vector<Made> figures;
    Section task;
    try {
      const LessonState state =
          lesson_state(traces_, page_workspace(lesson_, index, traces_, progress_));
      add_text(section, finished_text(page.text, state, progress_));
      if (!page.view_json.empty() && page.error.empty())
        figures = make_figures(page, state.workspace);
      if (page.task) add_task(task, finished_text(page.task->text, state, progress_));
    } catch (const FileError& error) {
      add_problem(section, error.what());
    }
    place(fitted(std::move(section), figures, std::move(task)));
  }

  /// The whole section, its figures a little lower where that keeps it on the page.
  Section fitted(Section text, const std::vector<Made>& figures, Section task) const {
    Section whole;
    for (const double scale : {1.0, 0.85, 0.7, 1.0}) {
      whole = text;
      std::vector<Chunk> rows = set_figures(figures, scale);
      std::move(rows.begin(), rows.end(), std::back_inserter(whole.chunks));
      whole.chunks.insert(whole.chunks.end(), task.chunks.begin(), task.chunks.end());
      if (whole.height() <= kRoom - used_) break;
    }
    return whole;
  }

  void add_text(Section& section, const RichText& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      section.chunks.push_back(
          {set_block(style_, text[i], body(), kTextWidth), gap_before(text, i, body()), false});
    }
  }

  /// A box with a square to tick.
  void add_task(Section& section, const RichText& text) {
    constexpr double kPadding = 12.0, kSquare = 11.0, kIndent = 24.0;
    Fragment words;
    words.add(set_text(style_, text, body(), kWidth - 2 * kPadding - kIndent), {0.0, 0.0});
    Fragment box;
    const double height = words.height + 2 * kPadding - 3.0;
    figure::Path ground = rounded({0.0, 0.0, kWidth, height}, 4.0);
    ground.fill = style_.colours.selection.with_alpha(0.10);
    ground.stroke =
        figure::Stroke{style_.colours.selection.with_alpha(0.55), 0.7, {}, figure::Cap::butt};
    box.items.emplace_back(std::move(ground));
    figure::Path square = rounded({kPadding, kPadding, kSquare, kSquare}, 1.5);
    square.fill = figure::Colour{255, 255, 255};
    square.stroke = figure::Stroke{style_.colours.ink, 0.9, {}, figure::Cap::butt};
    box.items.emplace_back(std::move(square));
    box.add(std::move(words), {kPadding + kIndent, kPadding - 2.0});
    box.height = height;
    section.chunks.push_back({std::move(box), 12.0, false});
  }

  /// An error message in place of the element that has the error.
  void add_problem(Section& section, const std::string& problem) {
    problems_.push_back(problem);
    Fragment words = text(problem, look(9.0, 13.0, style_.colours.ink), kWidth - 20.0);
    Fragment box;
    figure::Path bar;
    bar.rect({0.0, 0.0, 2.5, words.height});
    bar.fill = style_.colours.evicted;
    box.items.emplace_back(std::move(bar));
    box.add(std::move(words), {12.0, 0.0});
    section.chunks.push_back({std::move(box), 8.0, false});
  }

  // --- figures

  std::vector<Made> make_figures(const Page& page, const window::WorkspaceState& workspace) {
    std::vector<Made> all;
    for (PageFigure& figure : page_figures(workspace)) {
      Made one;
      one.number = ++figures_;
      one.narrow = figure.info->width_mm < kWideFigureFrom;
      try {
        one.made = make_figure(figure, traces_, progress_);
      } catch (const Cancelled&) {
        throw;
      } catch (const std::runtime_error& error) {  // of the command line, the file or at work
        one.problem = error.what();
        problems_.push_back(at_line(lesson_.path, page.view_line, one.problem));
      }
      one.tile = std::move(figure);
      all.push_back(std::move(one));
    }
    return all;
  }

  /// The figures of a page, those drawn for a column two by two; `scale` is of the greatest
  /// heights.
  std::vector<Chunk> set_figures(const std::vector<Made>& figures, double scale) const {
    std::vector<Chunk> rows;
    for (std::size_t i = 0; i < figures.size(); ++i) {
      Fragment row;
      if (figures[i].narrow && i + 1 < figures.size() && figures[i + 1].narrow) {
        const double each = (kWidth - kColumnGap) / 2;
        row.add(set_figure(figures[i], each, kHighestPair * scale), {0.0, 0.0});
        row.add(set_figure(figures[i + 1], each, kHighestPair * scale), {each + kColumnGap, 0.0});
        ++i;
      } else {
        row = set_figure(figures[i], figures[i].narrow ? kNarrowFigure : kWidth, kHighest * scale);
      }
      rows.push_back({std::move(row), 14.0, false});
    }
    return rows;
  }

  Fragment set_figure(const Made& one, double width, double highest) const {
    Fragment result;
    if (!one.made) {
      result.add(caption(one.number, one.problem, width), {0.0, 0.0});
      return result;
    }
    result = drawn(*one.tile.info, *one.made, one.tile.options, width, highest);
    const std::string words = caption_of(*one.made);
    if (width == kNarrowFigure) {  // there is room beside it
      constexpr double kGap = 16.0;
      result.add(caption(one.number, words, kWidth - width - kGap), {width + kGap, 4.0});
    } else {
      result.add(caption(one.number, words, width), {0.0, result.height + 5.0});
    }
    return result;
  }

  /// The figure's own words, and the settings that they do not mention.
  static std::string caption_of(const figure::MadeFigure& made) {
    std::string caption = made.figure->caption();
    const auto find = [&](std::string_view wanted) {
      const auto found = std::find_if(made.settings.begin(), made.settings.end(),
                                      [&](const auto& one) { return one.first == wanted; });
      return found == made.settings.end() ? std::string() : found->second;
    };
    const std::string policy = find("policy");
    if (policy.empty() || policy == "full") return caption;
    std::vector<std::string> words;
    if (caption.find(policy) == std::string::npos) words.push_back("policy " + policy);
    const std::string policy_b = find("policy_b");
    if (!policy_b.empty() && caption.find(policy_b) == std::string::npos)
      words.push_back("policy B " + policy_b);
    if (caption.find("N = ") == std::string::npos) words.push_back("budget " + find("budget"));
    if (words.empty()) return caption;
    std::string settings = fmt::format("{}.", fmt::join(words, ", "));
    settings.front() = settings.front() == 'p' ? 'P' : 'B';
    return caption + (caption.empty() ? "" : " ") + settings;
  }

  Fragment caption(int number, const std::string& words, double width) const {
    Run label;
    label.text = fmt::format("Figure {}", number);
    label.bold = true;
    Run rest;
    rest.text = " " + words;
    const RichText text{Block{BlockKind::paragraph, 0, {label, rest}}};
    return set_text(style_, text, look(8.0, 11.2, style_.colours.faint), width);
  }

  // --- pages

  /// A section is kept together where that leaves no great hole.
  void place(Section section) {
    constexpr double kHole = 0.6;
    const double left = kRoom - used_;
    if (section.height() > left && section.height() <= kRoom && left < kHole * kRoom) new_page();
    bool first = true;
    for (std::size_t i = 0; i < section.chunks.size(); ++i) {
      make_room(section.chunks, i);
      if (std::exchange(first, false)) pages_.back().chapters.push_back(section.title);
      Paper::place(std::move(section.chunks[i]));
    }
  }

  /// Feet and heads, when it is known how many there are.
  void finish_pages() {
    const Trace& trace = *traces_.trace;
    const std::string foot =
        fmt::format("Trace {} · model {} · kvloupe {}", trace.path().filename().string(),
                    trace.model().name, KVLOUPE_VERSION);
    add_feet(foot);
    for (std::size_t i = 1; i < pages_.size(); ++i)
      add_small(pages_[i].scene, lesson_.title, {kForm.side, kForm.top - 26.0}, figure::Align::left,
                kWidth);
    Scene& first = pages_.front().scene;
    first.title = lesson_.title;
    first.caption = lesson_.summary;
    first.metadata = {{"lesson", lesson_.name},
                      {"trace", trace.path().filename().string()},
                      {"model", trace.model().name},
                      {"version", "kvloupe " KVLOUPE_VERSION}};
  }

  const Lesson& lesson_;
  const LessonTraces& traces_;
  Progress& progress_;
  std::vector<std::string> problems_;
  int figures_ = 0;
};

}  // namespace

Handout make_handout(const Lesson& lesson, const LessonTraces& traces,
                     const figure::TextMetrics& fonts, Progress& progress) {
  return Maker(lesson, traces, fonts, progress).make();
}

}  // namespace kvloupe::lesson
