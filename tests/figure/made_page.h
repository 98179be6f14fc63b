#pragma once

#include <memory>
#include <string>

#include "app/document/document.h"
#include "app/scene/style.h"

namespace kvloupe::test {

/// A figure that says of each place what it is: "T12 0.012", "T3 Q5 1 234", "L1 H0".
class SayingFigure : public figure::Figure {
 public:
  figure::Scene draw(const figure::DrawRequest&) const override { return {}; }
  void write_csv(figure::CsvWriter&) const override {}
  std::string value_text(const figure::Target& target) const override;
  std::string caption() const override { return {}; }
};

/// Pictures of 200 × 100 points for tests of pages. `step` moves things about.
figure::document::Picture strip_picture(const figure::TextMetrics& fonts,
                                        int step);                           // tokens × steps
figure::document::Picture text_picture(const figure::TextMetrics& fonts);    // regions of tokens
figure::document::Picture points_picture(const figure::TextMetrics& fonts);  // tokens as points
figure::document::Picture heads_picture(const figure::TextMetrics& fonts);   // layers × heads
figure::document::Picture map_picture(const figure::TextMetrics& fonts,
                                      int tokens);  // tokens × tokens

/// 20 tokens, 5 steps; some tokens are named to break a page.
std::shared_ptr<const figure::document::Names> hostile_names();

/// A lesson of two pages: a film strip over steps with a text and points, then heads and a map.
figure::document::Document made_page(const figure::TextMetrics& fonts);

}  // namespace kvloupe::test
