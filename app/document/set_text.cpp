#include "app/document/set_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "app/plot/frame.h"
#include "app/scene/scene.h"

namespace kvloupe::figure::document {

namespace {

constexpr double kCodeSize = 0.9;  // JetBrains Mono looks larger than Inter
constexpr double kAscent = 0.78;   // of the line's height above the baseline
constexpr double kGroundAbove = 0.86, kGroundBelow = 0.28;  // of code, in its size
constexpr double kCodePadding = 1.6;

using Word = std::vector<Piece>;

Font font_of(const Run& run, bool all_bold) {
  if (run.code) return Font::mono;
  if (run.bold || all_bold) return Font::bold;
  return run.italic ? Font::italic : Font::regular;
}

/// The words of a block; pieces of one word stand side by side without a space.
std::vector<Word> words_of(const TextBlock& block) {
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

class Breaker {
 public:
  Breaker(double width, const Measure& measure) : width_(width), measure_(measure) {}

  std::vector<Word> lines(const TextBlock& block) {
    for (const Word& word : words_of(block)) add(word);
    if (!line_.empty()) end_line();
    return std::move(lines_);
  }

 private:
  double width(const Word& word) const {
    double sum = 0.0;
    for (const Piece& piece : word) sum += measure_(*piece.style, piece.text);
    return sum;
  }

  void add(const Word& word) {
    if (!line_.empty() && filled_ + measure_(kPlain, " ") + width(word) > width_) end_line();
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
        next_character(piece.text, byte);
        const std::string character = piece.text.substr(from, byte - from);
        if (!part.text.empty() && filled_ + measure_(*part.style, part.text + character) > width_) {
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
    const auto same = [&](const Run& a) {
      const Run& b = *piece.style;
      return a.bold == b.bold && a.italic == b.italic && a.code == b.code && a.link == b.link &&
             a.pending == b.pending;
    };
    std::string text = piece.text;
    const bool plain = !piece.style->code && piece.style->link.empty();
    if (after_space && (plain || same(*line_.back().style))) {
      text = " " + text;
    } else if (after_space && line_.back().style->code) {
      // The space belongs to neither neighbour, which have a ground or line of their own.
      line_.push_back({&kPlain, " "});
    } else if (after_space) {
      line_.back().text += " ";
    }
    if (!line_.empty() && same(*line_.back().style)) {
      line_.back().text += text;
    } else {
      line_.push_back({piece.style, std::move(text)});
    }
  }

  void end_line() {
    for (Piece& piece : line_) piece.width = measure_(*piece.style, piece.text);
    lines_.push_back(std::exchange(line_, {}));
    filled_ = 0.0;
  }

  static inline const Run kPlain;
  double width_;
  const Measure& measure_;
  std::vector<Word> lines_;
  Word line_;
  double filled_ = 0.0;
};

/// Sets a block on paper.
Fragment set_lines(const Style& style, const TextBlock& block, const TextLook& look, double width) {
  const auto size = [&](const Run& run) { return run.code ? look.size * kCodeSize : look.size; };
  const auto measure = [&](const Run& run, const std::string& text) {
    return style.fonts->width(text, font_of(run, look.bold), size(run)) +
           (run.code ? 2 * kCodePadding : 0.0);
  };
  Fragment result;
  for (const std::vector<Piece>& line : lines_of(block, width, measure)) {
    const double baseline = result.height + kAscent * look.leading;
    double x = 0.0;
    for (const Piece& piece : line) {
      const Run& run = *piece.style;
      Text text = make_text(style, piece.text, {x + (run.code ? kCodePadding : 0.0), baseline},
                            size(run), font_of(run, look.bold));
      text.colour = run.link.empty() ? look.colour : style.colours.retained;
      if (run.code) {
        Path ground;
        ground.rect({x, baseline - kGroundAbove * text.size, piece.width,
                     (kGroundAbove + kGroundBelow) * text.size});
        ground.fill = style.colours.grid.with_alpha(0.5);
        result.items.emplace_back(std::move(ground));
      }
      if (!run.link.empty())
        result.links.push_back(
            {{x, baseline - text.size, piece.width, 1.25 * text.size}, run.link});
      result.items.emplace_back(std::move(text));
      x += piece.width;
    }
    result.height += look.leading;
  }
  return result;
}

}  // namespace

std::vector<std::vector<Piece>> lines_of(const TextBlock& block, double width,
                                         const Measure& measure) {
  return Breaker(width, measure).lines(block);
}

void Fragment::move(Point by) {
  move_items(items, by);
  for (PdfLink& link : links) {
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

namespace {

Fragment set_block(const Style& style, const TextBlock& block, const TextLook& look, double width) {
  using Kind = TextBlock::Kind;
  const bool item = block.kind != Kind::paragraph;
  const double indent = item ? look.indent() : 0.0;
  Fragment fragment;
  fragment.add(set_lines(style, block, look, width - indent), {indent, 0.0});
  if (item) {
    const std::string mark = block.kind == Kind::bullet ? "•" : fmt::format("{}.", block.number);
    Text text = make_text(style, mark, {0.0, kAscent * look.leading}, look.size);
    text.colour = style.colours.faint;
    fragment.items.emplace_back(std::move(text));
  }
  return fragment;
}

}  // namespace

double gap_before(const TextBlocks& text, std::size_t block, const TextLook& look) {
  const bool list = block > 0 && text[block].kind != TextBlock::Kind::paragraph &&
                    text[block].kind == text[block - 1].kind;
  return list ? look.item_gap() : look.paragraph_gap();
}

Fragment set_text(const Style& style, const TextBlocks& text, const TextLook& look, double width) {
  Fragment all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const double gap = i == 0 ? 0.0 : gap_before(text, i, look);
    all.add(set_block(style, text[i], look, width), {0.0, all.height + gap});
  }
  return all;
}

TextBlock paragraph(std::string words) { return {.runs = {{std::move(words)}}}; }

}  // namespace kvloupe::figure::document
