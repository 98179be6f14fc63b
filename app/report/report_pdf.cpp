// The report on paper: two pages of A4. Text and tables have the height they need, and the figures
// of a page share the rest.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "app/lesson/set_text.h"
#include "app/plot/frame.h"
#include "app/report/report.h"

namespace kvloupe::report {

using figure::Font;
using lesson::Fragment;
using lesson::TextLook;

namespace {

// In points.
constexpr lesson::PaperForm kForm{
    .side = 46.0, .top = 42.0, .bottom = 46.0, .foot_line = 14.0, .foot_text = 11.0, .small = 7.2};
constexpr double kWidth = kForm.width();
constexpr double kGap = 16.0;     // between a figure and the table beside it
constexpr double kFacts = 62.0;   // of the names of facts
constexpr double kBeside = 0.56;  // of the width: a figure with a table beside it
constexpr double kLeastFigure = 84.0, kMostFigure = 290.0;
constexpr double kCaption = 4.0;          // between a figure and its caption
constexpr std::size_t kPartsOnFirst = 2;  // what was studied, and the curves

/// `figure` is drawn once the height that is left is known.
struct Chunk : lesson::Chunk {
  const ReportFigure* figure = nullptr;  // above the fragment, or beside it
  double width = 0.0;                    // of the figure
  bool beside = false;

  double fixed() const { return before + (beside ? 0.0 : fragment.height); }
};

class Pages : lesson::Paper {
 public:
  explicit Pages(const figure::TextMetrics& fonts) : Paper(kForm, fonts) {}

  std::string pdf(const Report& report) {
    std::vector<Chunk> first = head(report);
    const std::size_t cut = std::min(kPartsOnFirst, report.parts.size());
    for (std::size_t i = 0; i < cut; ++i) add_part(report.parts[i], first);
    set_page(std::move(first), report.title);
    std::vector<Chunk> second;
    for (std::size_t i = cut; i < report.parts.size(); ++i) add_part(report.parts[i], second);
    if (!second.empty()) set_page(std::move(second), "Promises, heads, commands");
    finish(report);
    return figure::write_pdf(pages_, fonts_);
  }

 private:
  static TextLook look(double size, double leading, figure::Colour colour, bool bold = false) {
    return {.size = size,
            .leading = leading,
            .paragraph_gap = 3.0,
            .item_gap = 2.0,
            .indent = 9.0,
            .colour = colour,
            .bold = bold};
  }
  TextLook body() const { return look(8.8, 12.2, style_.colours.ink); }
  TextLook small() const { return look(7.4, 9.8, style_.colours.faint); }
  static Chunk chunk(Fragment fragment, double before, bool with_next = false) {
    return {{std::move(fragment), before, with_next}};
  }

  std::vector<Chunk> head(const Report& report) const {
    std::vector<Chunk> chunks;
    chunks.push_back(
        chunk(text(report.title, look(17.0, 21.0, style_.colours.ink, true), kWidth), 0.0));
    chunks.push_back(chunk(text(report.subtitle, small(), kWidth), 2.0));
    constexpr double kPadding = 9.0;
    Fragment box, words;
    for (std::size_t i = 0; i < report.recommendation.size(); ++i) {
      TextLook how = body();
      how.bold = i == 0;
      words.add(text(report.recommendation[i], how, kWidth - 2 * kPadding),
                {0.0, words.height + (i > 0 ? 3.0 : 0.0)});
    }
    const double height = words.height + 2 * kPadding - 3.0;
    figure::Path ground, bar;
    ground.rect({0.0, 0.0, kWidth, height});
    ground.fill = style_.colours.selection.with_alpha(0.10);
    bar.rect({0.0, 0.0, 2.5, height});
    bar.fill = style_.colours.retained;
    box.items.emplace_back(std::move(ground));
    box.items.emplace_back(std::move(bar));
    box.add(std::move(words), {kPadding, kPadding - 2.0});
    box.height = height;
    chunks.push_back(chunk(std::move(box), 9.0));
    lesson::RichText list;
    for (const std::string& one : report.cautions) {
      lesson::Run run;
      run.text = one;
      list.push_back({lesson::BlockKind::bullet, 0, {run}});
    }
    if (!list.empty()) {
      chunks.push_back(
          chunk(lesson::set_text(style_, list, look(8.2, 11.0, style_.colours.ink), kWidth), 6.0));
    }
    return chunks;
  }

  void add_part(const ReportPart& part, std::vector<Chunk>& chunks) const {
    chunks.push_back(
        chunk(text(part.title, look(11.5, 15.0, style_.colours.ink, true), kWidth), 13.0, true));
    if (!part.facts.empty()) chunks.push_back(chunk(facts(part.facts), 4.0));
    for (const std::string& paragraph : part.paragraphs)
      chunks.push_back(chunk(text(paragraph, body(), kWidth), 3.0, true));
    if (part.figure) {
      const bool beside = part.table && part.figure->info->width_mm < lesson::kWideFigureFrom;
      Chunk one;
      one.figure = &*part.figure;
      one.before = 6.0;
      one.beside = beside;
      one.width = beside ? kBeside * kWidth : kWidth;
      if (beside) {
        const double room = kWidth - one.width - kGap;
        one.fragment = table(*part.table, room);
        one.fragment.add(text(caption(*part.figure), small(), room),
                         {0.0, one.fragment.height + 6.0});
      } else {
        one.fragment = text(caption(*part.figure), small(), kWidth);
      }
      chunks.push_back(std::move(one));
    }
    if (part.table && (!part.figure || part.figure->info->width_mm >= lesson::kWideFigureFrom))
      chunks.push_back(chunk(table(*part.table, kWidth), 7.0));
    Fragment commands;
    for (const std::string& command : part.commands) {
      lesson::Run run;
      run.text = command;
      run.code = true;
      commands.add(lesson::set_text(style_, {{lesson::BlockKind::paragraph, 0, {run}}},
                                    look(7.6, 10.2, style_.colours.ink), kWidth),
                   {0.0, commands.height + 1.5});
    }
    if (!part.commands.empty()) chunks.push_back(chunk(std::move(commands), 4.0));
  }

  static std::string caption(const ReportFigure& one) { return one.made.figure->caption(); }

  Fragment facts(const std::vector<std::pair<std::string, std::string>>& all) const {
    Fragment result;
    for (const auto& [name, value] : all) {
      const double at = result.height + (result.height > 0.0 ? 1.5 : 0.0);
      TextLook how = look(8.4, 11.2, style_.colours.faint);
      result.add(text(name, how, kFacts), {0.0, at});
      how.colour = style_.colours.ink;
      result.add(text(value, how, kWidth - kFacts), {kFacts, at});
    }
    return result;
  }

  Fragment table(const ReportTable& table, double width) const {
    constexpr double kSize = 8.0, kLeading = 11.2, kBetween = 14.0;
    const std::size_t count = table.columns.size();
    std::vector<double> widths(count);
    for (std::size_t c = 0; c < count; ++c) {
      widths[c] = fonts_.width(table.columns[c], Font::bold, kSize);
      for (const auto& row : table.rows)
        widths[c] = std::max(widths[c], fonts_.width(row[c], Font::regular, kSize));
    }
    const double between = kBetween * static_cast<double>(count - 1);
    fit_columns(widths, width - between);
    const double sum = std::accumulate(widths.begin(), widths.end(), between);
    Fragment result;
    const auto row = [&](const std::vector<std::string>& cells, Font font) {
      double x = 0.0;
      for (std::size_t c = 0; c < count; ++c) {
        const bool number = table.numbers[c];
        result.items.emplace_back(
            figure::make_text(style_, fonts_.fit(cells[c], font, kSize, widths[c] + 0.5),
                              {number ? x + widths[c] : x, result.height + 0.75 * kLeading}, kSize,
                              font, number ? figure::Align::right : figure::Align::left));
        x += widths[c] + kBetween;
      }
      result.height += kLeading;
    };
    row(table.columns, Font::bold);
    result.items.emplace_back(
        figure::make_line({0.0, result.height}, {sum, result.height}, style_.colours.grid, 0.7));
    result.height += 1.5;
    for (const auto& cells : table.rows) row(cells, Font::regular);
    for (const std::string& note : table.notes)
      result.add(text(note, small(), width), {0.0, result.height + 2.0});
    return result;
  }

  // --- pages

  void set_page(std::vector<Chunk> chunks, const std::string& chapter) {
    new_page();
    pages_.back().chapters.push_back(chapter);
    double fixed = 0.0;
    for (const Chunk& one : chunks) fixed += one.fixed() + (one.figure != nullptr ? kCaption : 0.0);
    // The largest figures that fit together; words beside a figure keep their height.
    std::vector<double> natural(chunks.size()), heights(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i].figure != nullptr) natural[i] = height_of(chunks[i]);
    }
    for (int percent = 100; percent >= 20; percent -= 5) {
      double sum = fixed;
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        if (chunks[i].figure == nullptr) continue;
        heights[i] = std::max(kLeastFigure, natural[i] * percent / 100.0);
        if (chunks[i].beside)
          heights[i] = std::max(heights[i], std::min(natural[i], chunks[i].fragment.height));
        sum += chunks[i].beside ? std::max(heights[i], chunks[i].fragment.height) : heights[i];
      }
      if (sum <= kForm.room()) break;
    }
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (chunks[i].figure != nullptr) draw(chunks[i], heights[i]);
      make_room(chunks, i, 1.0);
      place(std::move(chunks[i]));
    }
  }

  /// The height that a figure would take.
  double height_of(const Chunk& one) const {
    figure::FileOptions options{.width = one.width};
    return std::min(kMostFigure,
                    figure::page_of(*one.figure->info, one.figure->made, options, fonts_).height);
  }

  /// Puts the figure over the words, or beside them.
  void draw(Chunk& one, double height) const {
    Fragment drawn = Paper::drawn(*one.figure->info, one.figure->made, {}, one.width, height);
    if (one.beside) {
      drawn.add(std::move(one.fragment), {one.width + kGap, 0.0});
    } else {
      drawn.add(std::move(one.fragment), {0.0, drawn.height + kCaption});
    }
    one.fragment = std::move(drawn);
    one.figure = nullptr;
  }

  void finish(const Report& report) {
    add_feet(report.foot);
    figure::Scene& first = pages_.front().scene;
    first.title = report.title;
    first.caption = report.subtitle;
    first.metadata = {{"report", report.foot}};
  }
};

}  // namespace

void fit_columns(std::vector<double>& widths, double room) {
  std::vector<double> narrow = widths;
  std::sort(narrow.begin(), narrow.end());
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    const double most = room / static_cast<double>(narrow.size() - i);
    if (narrow[i] > most) {
      for (double& one : widths) one = std::min(one, most);
      return;
    }
    room -= narrow[i];
  }
}

std::string report_pdf(const Report& report, const figure::TextMetrics& fonts) {
  return Pages(fonts).pdf(report);
}

}  // namespace kvloupe::report
