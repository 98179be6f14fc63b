#pragma once
// A document on paper: text as lines of pieces in several fonts, and pages of A4 made of pieces one
// below the other.

#include <string>
#include <vector>

#include "app/export/figure_file.h"
#include "app/lesson/text.h"
#include "app/scene/cairo_backend.h"
#include "app/scene/style.h"

namespace kvloupe::lesson {

/// How a text is set.
struct TextLook {
  double size = 10.0;
  double leading = 15.0;       // from line to line
  double paragraph_gap = 6.0;  // between paragraphs
  double item_gap = 2.5;       // between items of a list
  double indent = 14.0;        // of the items of a list
  figure::Colour colour;
  bool bold = false;
};

/// Set text, from (0, 0) downwards, ready to be moved onto a page.
struct Fragment {
  std::vector<figure::Item> items;
  std::vector<figure::PdfLink> links;
  double height = 0.0;

  void move(figure::Point by);
  void add(Fragment other, figure::Point at);
};

/// Sets finished text, ragged right, in lines no wider than `width`.
Fragment set_text(const figure::Style& style, const RichText& text, const TextLook& look,
                  double width);

/// The space above a block that is not at the top of a page.
double gap_before(const RichText& text, std::size_t block, const TextLook& look);

/// One block of it.
Fragment set_block(const figure::Style& style, const Block& block, const TextLook& look,
                   double width);

/// A paragraph of plain words.
RichText plain(std::string words);

constexpr double kPaperWidth = 210.0 * figure::kPointsPerMillimetre;
constexpr double kPaperHeight = 297.0 * figure::kPointsPerMillimetre;
constexpr double kWideFigureFrom =
    120.0;  // mm: a figure's own width from which it takes the page's

/// The places on each page, in points.
struct PaperForm {
  double side, top, bottom;
  double foot_line, foot_text;  // below the room; below that line
  double small;                 // size of the foot's text
  constexpr double width() const { return kPaperWidth - 2 * side; }
  constexpr double room() const { return kPaperHeight - top - bottom; }
};

/// A piece that the end of a page never cuts.
struct Chunk {
  Fragment fragment;
  double before = 0.0;     // space above, but at the top of a page
  bool with_next = false;  // not the last on a page
};

class Paper {
 public:
  Paper(const PaperForm& form, const figure::TextMetrics& fonts);

 protected:
  Fragment text(const std::string& words, const TextLook& look, double width) const {
    return set_text(style_, plain(words), look, width);
  }
  /// A figure in this width, no higher than `highest`.
  Fragment drawn(const figure::FigureInfo& info, const figure::MadeFigure& made,
                 figure::FileOptions options, double width, double highest) const;

  void new_page();
  /// Begins a page where `chunks`[at] and those that must follow it on the same page do not fit.
  template <typename Chunks>
  void make_room(const Chunks& chunks, std::size_t at, double slack = 0.0) {
    double needed = 0.0;
    for (std::size_t i = at; i < chunks.size(); ++i) {
      needed += chunks[i].before + chunks[i].fragment.height;
      if (!chunks[i].with_next) break;
    }
    if (used_ > 0.0 && used_ + needed > form_.room() + slack) new_page();
  }
  void place(Chunk chunk);
  void add_small(figure::Scene& scene, const std::string& words, figure::Point at,
                 figure::Align align, double room) const;
  /// Feet, when it is known how many pages there are.
  void add_feet(const std::string& words);

  PaperForm form_;
  const figure::TextMetrics& fonts_;
  figure::Style style_;
  std::vector<figure::PdfPage> pages_;
  double used_ = 0.0;  // of the last page
};

}  // namespace kvloupe::lesson
