#pragma once
// Text of a lesson on paper: lines of pieces in several fonts.

#include <vector>

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

}  // namespace kvloupe::lesson
