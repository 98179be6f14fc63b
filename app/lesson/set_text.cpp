#include "app/lesson/set_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/plot/frame.h"
#include "app/scene/scene.h"

namespace kvloupe::lesson {

using figure::Font;
using figure::Point;
using figure::Style;

namespace {

constexpr double kCodeSize = 0.9;  // JetBrains Mono looks larger than Inter
constexpr double kAscent = 0.78;   // of the line's height above the baseline
constexpr double kGroundAbove = 0.86, kGroundBelow = 0.28;  // of code, in its size
constexpr double kCodePadding = 1.6;

/// A piece of a word, or of a line, in one style.
struct Piece {
  const Run* style = nullptr;
  std::string text;
};
using Word = std::vector<Piece>;

Font font_of(const Run& run, bool all_bold) {
  if (run.code) return Font::mono;
  if (run.bold || all_bold) return Font::bold;
  return run.italic ? Font::italic : Font::regular;
}

/// The words of a block; pieces of one word stand side by side without a space.
std::vector<Word> words_of(const Block& block) {
  std::vector<Word> words(1);
  for (const Run& run : block.runs) {
    std::size_t at = 0;
    while (at <= run.text.size()) {
      const std::size_t end = std::min(run.text.find(' ', at), run.text.size());
      if (end > at) words.back().push_back({&run, run.text.substr(at, end - at)});
      if (end == run.text.size()) break;
      if (!words.back().empty()) words.emplace_back();
      at = end + 1;
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

class Setter {
 public:
  Setter(const Style& style, const TextLook& look, double width)
      : style_(style), look_(look), width_(width) {}

  Fragment set(const Block& block) {
    for (const Word& word : words_of(block)) add(word);
    if (!line_.empty()) end_line();
    return std::move(result_);
  }

 private:
  double size(const Run& run) const { return run.code ? look_.size * kCodeSize : look_.size; }
  double width(const Piece& piece) const {
    return style_.fonts->width(piece.text, font_of(*piece.style, look_.bold), size(*piece.style)) +
           (piece.style->code ? 2 * kCodePadding : 0.0);
  }
  double width(const Word& word) const {
    double sum = 0.0;
    for (const Piece& piece : word) sum += width(piece);
    return sum;
  }

  void add(const Word& word) {
    const double space = style_.fonts->width(" ", Font::regular, look_.size);
    if (!line_.empty() && filled_ + space + width(word) > width_) end_line();
    if (width(word) > width_) {
      add_in_parts(word);
      return;
    }
    const bool first = line_.empty();
    for (std::size_t i = 0; i < word.size(); ++i) append(word[i], !first && i == 0);
    filled_ = width(line_);
  }

  /// A word longer than a line: a path, a formula.
  void add_in_parts(const Word& word) {
    for (const Piece& piece : word) {
      Piece part{piece.style, ""};
      for (std::size_t byte = 0; byte < piece.text.size();) {
        const std::size_t from = byte;
        figure::next_character(piece.text, byte);
        const std::string character = piece.text.substr(from, byte - from);
        const Piece longer{piece.style, part.text + character};
        if (!part.text.empty() && filled_ + width(longer) > width_) {
          append(part, false);
          end_line();
          part.text.clear();
        }
        part.text += character;
      }
      append(part, false);
      filled_ = width(line_);
    }
  }

  /// To the line's end; a stretch of one style becomes one text, so that it is copied as one.
  void append(const Piece& piece, bool after_space) {
    const auto same = [](const Run& a, const Run& b) {
      return a.bold == b.bold && a.italic == b.italic && a.code == b.code && a.link == b.link;
    };
    std::string text = piece.text;
    if (after_space) {
      if (same(*line_.back().style, *piece.style)) {
        text = " " + text;
      } else if (piece.style->code || !piece.style->link.empty()) {
        // The space belongs to the neighbour without a ground or line of its own.
        if (line_.back().style->code) {
          line_.push_back({&space_, " "});
        } else {
          line_.back().text += " ";
        }
      } else {
        text = " " + text;
      }
    }
    if (!line_.empty() && same(*line_.back().style, *piece.style)) {
      line_.back().text += text;
    } else {
      line_.push_back({piece.style, std::move(text)});
    }
  }

  void end_line() {
    const double baseline = result_.height + kAscent * look_.leading;
    double x = 0.0;
    for (const Piece& piece : line_) {
      const Run& run = *piece.style;
      const double wide = width(piece);
      figure::Text text =
          figure::make_text(style_, piece.text, {x + (run.code ? kCodePadding : 0.0), baseline},
                            size(run), font_of(run, look_.bold));
      text.colour = run.link.empty() ? look_.colour : style_.colours.retained;
      if (run.code) {
        figure::Path ground;
        ground.rect({x, baseline - kGroundAbove * text.size, wide,
                     (kGroundAbove + kGroundBelow) * text.size});
        ground.fill = style_.colours.grid.with_alpha(0.5);
        result_.items.emplace_back(std::move(ground));
      }
      if (!run.link.empty()) {
        result_.links.push_back({{x, baseline - text.size, wide, 1.25 * text.size}, run.link});
      }
      result_.items.emplace_back(std::move(text));
      x += wide;
    }
    line_.clear();
    filled_ = 0.0;
    result_.height += look_.leading;
  }

  const Style& style_;
  const TextLook& look_;
  double width_;
  Run space_;
  Word line_;
  double filled_ = 0.0;
  Fragment result_;
};

}  // namespace

void Fragment::move(Point by) {
  figure::move_items(items, by);
  for (figure::PdfLink& link : links) {
    link.rect.x += by.x;
    link.rect.y += by.y;
  }
}

void Fragment::add(Fragment other, Point at) {
  other.move(at);
  height = std::max(height, at.y + other.height);
  std::move(other.items.begin(), other.items.end(), std::back_inserter(items));
  std::move(other.links.begin(), other.links.end(), std::back_inserter(links));
}

Fragment set_block(const Style& style, const Block& block, const TextLook& look, double width) {
  const bool item = block.kind != BlockKind::paragraph;
  const double indent = item ? look.indent : 0.0;
  Fragment fragment;
  fragment.add(Setter(style, look, width - indent).set(block), {indent, 0.0});
  if (item) {
    const std::string mark =
        block.kind == BlockKind::bullet ? "•" : fmt::format("{}.", block.number);
    figure::Text text = figure::make_text(style, mark, {0.0, kAscent * look.leading}, look.size);
    text.colour = style.colours.faint;
    fragment.items.emplace_back(std::move(text));
  }
  return fragment;
}

double gap_before(const RichText& text, std::size_t block, const TextLook& look) {
  const bool list = block > 0 && text[block].kind != BlockKind::paragraph &&
                    text[block].kind == text[block - 1].kind;
  return list ? look.item_gap : look.paragraph_gap;
}

Fragment set_text(const Style& style, const RichText& text, const TextLook& look, double width) {
  Fragment all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const double gap = i == 0 ? 0.0 : gap_before(text, i, look);
    all.add(set_block(style, text[i], look, width), {0.0, all.height + gap});
  }
  return all;
}

RichText plain(std::string words) {
  Run run;
  run.text = std::move(words);
  return {Block{BlockKind::paragraph, 0, {std::move(run)}}};
}

Paper::Paper(const PaperForm& form, const figure::TextMetrics& fonts)
    : form_(form), fonts_(fonts), style_(figure::make_style(fonts)) {
  style_.colours.paper = {255, 255, 255};
}

Fragment Paper::drawn(const figure::FigureInfo& info, const figure::MadeFigure& made,
                      figure::FileOptions options, double width, double highest) const {
  options.width = width;
  figure::Scene scene = figure::page_of(info, made, options, fonts_);
  if (scene.height > highest) {
    options.size = figure::PageSize{width, highest};
    scene = figure::page_of(info, made, options, fonts_);
  }
  Fragment result;
  result.items = std::move(scene.items);
  result.height = scene.height;
  return result;
}

void Paper::new_page() {
  pages_.push_back(figure::PdfPage{.scene = figure::make_scene(style_, kPaperWidth, kPaperHeight)});
  used_ = 0.0;
}

void Paper::place(Chunk chunk) {
  if (used_ > 0.0) used_ += chunk.before;
  const double height = chunk.fragment.height;
  chunk.fragment.move({form_.side, form_.top + used_});
  figure::PdfPage& page = pages_.back();
  std::move(chunk.fragment.items.begin(), chunk.fragment.items.end(),
            std::back_inserter(page.scene.items));
  std::move(chunk.fragment.links.begin(), chunk.fragment.links.end(),
            std::back_inserter(page.links));
  used_ += height;
}

void Paper::add_small(figure::Scene& scene, const std::string& words, figure::Point at,
                      figure::Align align, double room) const {
  const std::string fitting = fonts_.fit(words, figure::Font::regular, form_.small, room);
  figure::Text item =
      figure::make_text(style_, fitting, at, form_.small, figure::Font::regular, align);
  item.colour = style_.colours.faint;
  scene.add(std::move(item));
}

void Paper::add_feet(const std::string& words) {
  const double line = kPaperHeight - form_.bottom + form_.foot_line;
  const double left = form_.side, right = form_.side + form_.width();
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    figure::Scene& scene = pages_[i].scene;
    scene.add(figure::make_line({left, line}, {right, line}, style_.colours.grid, 0.6));
    add_small(scene, words, {left, line + form_.foot_text}, figure::Align::left,
              form_.width() - 60.0);
    add_small(scene, fmt::format("{} / {}", i + 1, pages_.size()), {right, line + form_.foot_text},
              figure::Align::right, 60.0);
  }
}

}  // namespace kvloupe::lesson
