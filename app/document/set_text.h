#pragma once
// Text in lines of pieces in several fonts, for paper and the window; set on paper.

#include <functional>
#include <string>
#include <vector>

#include "app/document/document.h"
#include "app/scene/cairo_backend.h"
#include "app/scene/style.h"

namespace kvloupe::figure::document {

/// A stretch of a line in one style.
struct Piece {
  const Run* style = nullptr;
  std::string text;
  double width = 0.0;
};
/// The width of a text in the style of a run.
using Measure = std::function<double(const Run&, const std::string&)>;
/// Breaks a block, ragged right, into lines no wider than `width`. The pieces point to the block's
/// runs.
std::vector<std::vector<Piece>> lines_of(const TextBlock& block, double width,
                                         const Measure& measure);

/// How a text is set.
struct TextLook {
  double size = 10.0;
  double leading = 15.0;  // from line to line
  Colour colour = {};
  bool bold = false;

  double paragraph_gap() const { return 0.4 * leading; }  // between paragraphs
  double item_gap() const { return leading / 6.0; }       // between items of a list
  double indent() const { return 1.4 * size; }            // of the items of a list
};

/// Set text, from (0, 0) downwards, ready to be moved onto a page.
struct Fragment {
  std::vector<Item> items;
  std::vector<PdfLink> links;
  double height = 0.0;

  void move(Point by);
  void add(Fragment other, Point at);
};

/// Sets a text, ragged right, in lines no wider than `width`.
Fragment set_text(const Style& style, const TextBlocks& text, const TextLook& look, double width);

/// The space above a block that is not at the top of a page.
double gap_before(const TextBlocks& text, std::size_t block, const TextLook& look);

}  // namespace kvloupe::figure::document
