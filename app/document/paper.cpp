// A document on pages of A4.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "app/document/document.h"
#include "app/document/set_text.h"
#include "app/plot/frame.h"
#include "app/scene/cairo_backend.h"

namespace kvloupe::figure::document {

namespace {

// In points, but for the shares.
constexpr double kPaperWidth = 210.0 * kPointsPerMillimetre;
constexpr double kPaperHeight = 297.0 * kPointsPerMillimetre;
constexpr double kWideFrom = 120.0;     // mm: a figure's own width from which it takes the page's
constexpr double kHighest = 300.0;      // a figure
constexpr double kHighestPair = 250.0;  // two side by side
constexpr double kLowest = 84.0;
constexpr double kFootLine = 16.0, kFootText = 12.0;  // below the room; below that line
constexpr double kGap = 17.0;                         // between two that stand side by side
constexpr double kBesideTable = 0.56;  // of the width: a figure with a table beside it
constexpr double kCaption = 4.0;       // between a figure and its caption
constexpr double kGreatestHole = 0.6;  // of a page: left empty to keep a section together
constexpr double kSlack = 1.0;         // by which a page may be too full

/// A piece that the end of a page never cuts.
struct Chunk {
  Fragment fragment;
  double before = 0.0;       // space above, but at the top of a page
  bool with_next = false;    // not the last on a page
  std::string chapter = {};  // begins here; empty: none
};

double height_of(const std::vector<Chunk>& chunks) {
  double sum = 0.0;
  for (const Chunk& chunk : chunks) sum += chunk.before + chunk.fragment.height;
  return sum;
}

class Paper {
 public:
  Paper(const Document& document, const PaperLook& look, const TextMetrics& fonts)
      : document_(document), look_(look), fonts_(fonts), style_(make_style(fonts)) {
    style_.colours.paper = {255, 255, 255};
  }

  std::string pdf() {
    new_page();
    place(head());
    const std::vector<Section>& all = document_.sections;
    for (std::size_t from = 0, to = 0; from < all.size(); from = to) {
      to = from + 1;
      while (look_.shared && to < all.size() && !all[to].new_page) ++to;
      if (all[from].new_page) new_page();
      place(fitted(from, to));
    }
    finish();
    return write_pdf(pages_, fonts_);
  }

 private:
  double width() const { return kPaperWidth - 2 * look_.side; }
  double text_width() const { return look_.shared ? width() : 430.0; }
  double alone() const { return look_.shared ? width() : 330.0; }  // drawn for a column
  double room() const { return kPaperHeight - look_.top - look_.bottom; }
  double left() const { return room() - used_; }
  TextLook text_look(const PaperLook::Size& size, Colour colour, bool bold = false) const {
    return {size.text, size.line, colour, bold};
  }
  Fragment words(const std::string& text, const TextLook& look, double width) const {
    return set_text(style_, {paragraph(text)}, look, width);
  }

  // --- pieces

  std::vector<Chunk> head() const {
    std::vector<Chunk> chunks;
    chunks.push_back(
        {words(document_.title, text_look(look_.title, style_.colours.ink, true), width()), 0.0,
         true});
    if (!document_.summary.empty()) {
      const TextLook faint = text_look(look_.summary, style_.colours.faint);
      chunks.push_back({words(document_.summary, faint, text_width()), 0.5 * faint.leading, true});
    }
    TextBlocks lead, list;
    for (const std::string& one : document_.lead) lead.push_back({.runs = {{one, lead.empty()}}});
    for (const std::string& one : document_.cautions)
      list.push_back({TextBlock::Kind::bullet, {{one}}});
    if (lead.empty()) {
      Fragment line;
      line.items.emplace_back(make_line({0.0, 0.0}, {width(), 0.0}, style_.colours.grid, 0.8));
      line.height = 1.0;
      chunks.push_back({std::move(line), 14.0});
    } else {
      const TextLook body = text_look(look_.body, style_.colours.ink);
      chunks.push_back({boxed(lead, body, style_.colours.retained, true), 9.0});
    }
    if (!list.empty())
      chunks.push_back(
          {set_text(style_, list, text_look(look_.fine, style_.colours.ink), width()), 6.0});
    return chunks;
  }

  /// Sections, their figures lower where that keeps them on the page.
  std::vector<Chunk> fitted(std::size_t from, std::size_t to) const {
    const auto set = [&](double scale) {
      std::vector<Chunk> chunks;
      for (std::size_t s = from; s < to; ++s) add_section(s, scale, chunks);
      return chunks;
    };
    const int least = look_.shared ? 20 : 70, step = look_.shared ? 5 : 15;
    std::vector<Chunk> chunks;
    for (int percent = 100; percent >= least; percent -= step) {
      chunks = set(percent / 100.0);
      if (height_of(chunks) <= left()) return chunks;
    }
    return look_.shared ? chunks : set(1.0);
  }

  /// `scale` is of the greatest heights of figures.
  void add_section(std::size_t at, double scale, std::vector<Chunk>& chunks) const {
    const Section& section = document_.sections[at];
    const TextLook body = text_look(look_.body, style_.colours.ink);
    const TextLook fine = text_look(look_.fine, style_.colours.ink);
    chunks.push_back({heading(section.title, at + 1), look_.before_section, true, section.title});
    for (std::size_t i = 0; i < section.text.size(); ++i) {
      chunks.push_back({set_text(style_, {section.text[i]}, body, text_width()),
                        gap_before(section.text, i, body) * (look_.shared ? 0.6 : 1.0)});
    }
    for (const std::string& problem : section.problems)
      chunks.push_back({boxed({paragraph(problem)}, fine, style_.colours.evicted, false), 8.0});
    if (!section.facts.empty()) chunks.push_back({facts(section.facts), 4.0});
    if (!add_figures(section, scale, chunks))
      chunks.push_back({table(*section.table, width()), 7.0});
    const TextLook code = text_look(look_.caption, style_.colours.ink);
    Fragment commands;
    for (const std::string& command : section.commands) {
      const TextBlock line{.runs = {{.text = command, .code = true}}};
      commands.add(set_text(style_, {line}, code, width()), {0.0, commands.height + 1.5});
    }
    if (!section.commands.empty()) chunks.push_back({std::move(commands), 4.0});
    if (!section.task.empty())
      chunks.push_back({boxed(section.task, body, style_.colours.selection, true, true), 12.0});
  }

  Fragment heading(const std::string& title, std::size_t number) const {
    const TextLook look = text_look(look_.heading, style_.colours.ink, true);
    Fragment line;
    double indent = 0.0;
    if (look_.numbered) {
      Text digit = make_text(style_, std::to_string(number), {0.0, 0.78 * look.leading}, look.size,
                             Font::bold);
      digit.colour = style_.colours.retained;
      indent = digit.width + 9.0;
      line.items.emplace_back(std::move(digit));
    }
    line.add(words(title, look, width() - indent), {indent, 0.0});
    return line;
  }

  /// A text beside a bar, on a ground of its own, beside a square to tick.
  Fragment boxed(const TextBlocks& text, const TextLook& look, Colour bar, bool ground,
                 bool tick = false) const {
    const double padding = ground ? 10.0 : 0.0, from = tick ? 36.0 : 12.0;
    Fragment set = set_text(style_, text, look, width() - from - padding), box;
    box.height = set.height + 2 * padding - (ground ? 3.0 : 0.0);
    const auto add = [&](const Rect& rect, Colour fill, double line) {
      Path path;
      path.rect(rect);
      path.fill = fill;
      if (line > 0.0) path.stroke = Stroke{style_.colours.ink, line, {}, Cap::butt};
      box.items.emplace_back(std::move(path));
    };
    if (ground)
      add({0.0, 0.0, width(), box.height}, style_.colours.selection.with_alpha(0.10), 0.0);
    add({0.0, 0.0, 2.5, box.height}, bar, 0.0);
    if (tick) add({12.0, padding, 11.0, 11.0}, style_.colours.paper, 0.9);
    box.add(std::move(set), {from, ground ? padding - 2.0 : 0.0});
    return box;
  }

  Fragment facts(const std::vector<std::pair<std::string, std::string>>& all) const {
    const TextLook name_look = text_look(look_.fine, style_.colours.faint);
    const TextLook value_look = text_look(look_.fine, style_.colours.ink);
    double indent = 0.0;
    for (const auto& [name, value] : all)
      indent = std::max(indent, fonts_.width(name, Font::regular, name_look.size) + 14.0);
    Fragment result;
    for (const auto& [name, value] : all) {
      const double at = result.height + (result.height > 0.0 ? 1.5 : 0.0);
      result.add(words(name, name_look, indent), {0.0, at});
      result.add(words(value, value_look, width() - indent), {indent, at});
    }
    return result;
  }

  Fragment table(const Table& table, double width) const {
    constexpr double kBetween = 14.0;
    const auto [size, leading] = look_.fine;
    const std::size_t count = table.columns.size();
    std::vector<double> widths;
    for (std::size_t c = 0; c < count; ++c) {
      widths.push_back(fonts_.width(table.columns[c].name, Font::bold, size));
      for (const Table::Row& row : table.rows)
        widths[c] = std::max(widths[c], fonts_.width(row.cells[c].text, Font::regular, size));
    }
    const double between = kBetween * static_cast<double>(count - 1);
    fit_columns(widths, width - between);
    Fragment result;
    double x = 0.0;
    const auto cell = [&](std::size_t c, const std::string& text, Font font) {
      if (c == 0) x = 0.0;
      const bool number = table.columns[c].numbers;
      result.items.emplace_back(
          make_text(style_, fonts_.fit(text, font, size, widths[c] + 0.5),
                    {number ? x + widths[c] : x, result.height + 0.75 * leading}, size, font,
                    number ? Align::right : Align::left));
      x += widths[c] + kBetween;
    };
    for (std::size_t c = 0; c < count; ++c) cell(c, table.columns[c].name, Font::bold);
    result.height += leading;
    const double end = std::accumulate(widths.begin(), widths.end(), between);
    result.items.emplace_back(
        make_line({0.0, result.height}, {end, result.height}, style_.colours.grid, 0.7));
    result.height += 1.5;
    for (const Table::Row& row : table.rows) {
      for (std::size_t c = 0; c < count; ++c) cell(c, row.cells[c].text, Font::regular);
      result.height += leading;
    }
    for (const std::string& note : table.notes)
      result.add(words(note, text_look(look_.caption, style_.colours.faint), width),
                 {0.0, result.height + 2.0});
    return result;
  }

  // --- figures

  static bool is_narrow(const PageFigure& figure) { return figure.info->width_mm < kWideFrom; }

  Fragment caption(const PageFigure& figure, double width) const {
    TextBlock line;
    if (figure.number > 0) line.runs.push_back({fmt::format("Figure {}", figure.number), true});
    line.runs.push_back({(figure.number > 0 ? " " : "") + figure.caption});
    return set_text(style_, {line}, text_look(look_.caption, style_.colours.faint), width);
  }

  /// The figure in this width, no higher than `highest`; its caption below, or other words beside.
  Fragment drawn(const PageFigure& figure, double width, double highest,
                 std::optional<Fragment> beside = {}) const {
    FileOptions options = figure.options;
    options.width = width;
    if (beside) highest = std::max(highest, beside->height);
    Scene scene = page_of(*figure.info, figure.made, options, fonts_);
    if (scene.height > highest) {
      options.size = PageSize{width, highest};
      scene = page_of(*figure.info, figure.made, options, fonts_);
    }
    Fragment result{std::move(scene.items), {}, scene.height};
    if (beside) {
      result.add(std::move(*beside), {width + kGap, 0.0});
    } else {
      result.add(caption(figure, width), {0.0, scene.height + kCaption});
    }
    return result;
  }

  /// The figures of a section, those drawn for a column two by two, and a table beside one. False:
  /// the table is still to be set.
  bool add_figures(const Section& section, double scale, std::vector<Chunk>& chunks) const {
    const std::vector<PageFigure>& all = section.figures;
    const double highest = std::max(kLowest, kHighest * scale);
    bool done = !section.table;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Fragment row;
      if (!is_narrow(all[i])) {
        row = drawn(all[i], width(), highest);
      } else if (i + 1 < all.size() && is_narrow(all[i + 1])) {
        const double each = (width() - kGap) / 2, least = std::max(kLowest, kHighestPair * scale);
        row = drawn(all[i], each, least);
        row.add(drawn(all[++i], each, least), {each + kGap, 0.0});
      } else if (const double wide = done ? alone() : kBesideTable * width(); wide < width()) {
        const double rest = width() - wide - kGap;
        Fragment beside;
        if (!std::exchange(done, true)) beside = table(*section.table, rest);
        beside.add(caption(all[i], rest), {0.0, beside.height + kCaption});
        row = drawn(all[i], wide, highest, std::move(beside));
      } else {
        row = drawn(all[i], width(), highest);
      }
      chunks.push_back({std::move(row), look_.before_figure});
    }
    return done;
  }

  // --- pages

  void new_page() {
    pages_.push_back({.scene = make_scene(style_, kPaperWidth, kPaperHeight)});
    used_ = 0.0;
  }

  /// Pieces are kept together where that leaves no great hole.
  void place(std::vector<Chunk> chunks) {
    const double all = height_of(chunks);
    if (all > left() && all <= room() && left() < kGreatestHole * room()) new_page();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      double needed = 0.0;  // of this one and those that must follow it on the same page
      for (std::size_t next = i; next < chunks.size(); ++next) {
        needed += chunks[next].before + chunks[next].fragment.height;
        if (!chunks[next].with_next) break;
      }
      if (used_ > 0.0 && needed > left() + kSlack) new_page();
      if (used_ > 0.0) used_ += chunks[i].before;
      Fragment& fragment = chunks[i].fragment;
      fragment.move({look_.side, look_.top + used_});
      used_ += fragment.height;
      PdfPage& page = pages_.back();
      if (!chunks[i].chapter.empty()) page.chapters.push_back(chunks[i].chapter);
      std::move(fragment.items.begin(), fragment.items.end(), std::back_inserter(page.scene.items));
      std::move(fragment.links.begin(), fragment.links.end(), std::back_inserter(page.links));
    }
  }

  void add_small(Scene& scene, const std::string& words, Point at, Align align, double room) const {
    const double size = look_.caption.text;
    Text item = make_text(style_, fonts_.fit(words, Font::regular, size, room), at, size,
                          Font::regular, align);
    item.colour = style_.colours.faint;
    scene.add(std::move(item));
  }

  /// Feet and heads, when it is known how many pages there are.
  void finish() {
    constexpr double kNumber = 60.0;
    const double line = kPaperHeight - look_.bottom + kFootLine;
    const double left = look_.side, right = left + width(), base = line + kFootText;
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      Scene& scene = pages_[i].scene;
      scene.add(make_line({left, line}, {right, line}, style_.colours.grid, 0.6));
      add_small(scene, document_.foot, {left, base}, Align::left, width() - kNumber);
      add_small(scene, fmt::format("{} / {}", i + 1, pages_.size()), {right, base}, Align::right,
                kNumber);
      if (i > 0 && !look_.shared)
        add_small(scene, document_.title, {left, look_.top - 26.0}, Align::left, width());
    }
    Scene& first = pages_.front().scene;
    first.title = document_.title;
    first.caption = document_.summary;
    first.metadata = document_.metadata;
  }

  const Document& document_;
  const PaperLook& look_;
  const TextMetrics& fonts_;
  Style style_;
  std::vector<PdfPage> pages_;
  double used_ = 0.0;  // of the last page
};

}  // namespace

const PaperLook kHandoutLook{.side = 56.0,
                             .top = 64.0,
                             .bottom = 66.0,
                             .before_section = 26.0,
                             .before_figure = 14.0,
                             .title = {23.0, 29.0},
                             .summary = {11.0, 16.5},
                             .heading = {14.0, 18.0},
                             .body = {10.0, 15.0},
                             .fine = {9.0, 13.0},
                             .caption = {8.0, 11.2},
                             .numbered = true,
                             .shared = false};
const PaperLook kReportLook{.side = 46.0,
                            .top = 42.0,
                            .bottom = 46.0,
                            .before_section = 13.0,
                            .before_figure = 6.0,
                            .title = {17.0, 21.0},
                            .summary = {7.4, 9.8},
                            .heading = {11.5, 15.0},
                            .body = {8.8, 12.2},
                            .fine = {8.0, 10.8},
                            .caption = {7.4, 9.8},
                            .numbered = false,
                            .shared = true};

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

std::string write_paper(const Document& document, const PaperLook& look, const TextMetrics& fonts) {
  return Paper(document, look, fonts).pdf();
}

}  // namespace kvloupe::figure::document
