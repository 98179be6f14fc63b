#pragma once
// Figures as one web page that needs nothing else: pictures as inline SVG with real text, in both
// themes, and what the window says when one points at a place. Plain data in, bytes out: a page is
// made of sections (a lesson's pages; one for a single figure), a section of text and figures. A
// figure of a section with a slider has one picture for each of its steps.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/model_info.h"
#include "app/figure/figure.h"
#include "app/figure/scene.h"

namespace kvloupe::figure::html {

/// A piece of a line in one look. A link that is not http(s) or mailto is shown as plain text.
struct Run {
  std::string text;
  bool bold = false;
  bool italic = false;
  bool code = false;
  std::string link = {};
};

struct TextBlock {
  enum class Kind { paragraph, heading, bullet, numbered, code };
  Kind kind = Kind::paragraph;
  std::vector<Run> runs;
};

/// A figure as it was drawn, once for each theme, and what is said at each place of it.
struct Picture {
  Scene light;
  Scene dark;
  std::shared_ptr<const Figure> figure;  // of value_text; absent: places have no values
};

/// What tokens and steps are called.
struct Names {
  std::vector<std::string> tokens;         // [T] as shown; may be empty
  std::vector<std::uint8_t> segment;       // [T], or empty
  std::vector<std::string> segment_names;  // of the numbers above
  std::vector<Block> steps;                // tokens of each step; may be empty
};

struct PageFigure {
  std::string title;
  std::vector<std::pair<std::string, std::string>> settings;
  /// One, or one for each step of the section's slider. The light scene's caption is shown.
  std::vector<Picture> pictures;
  std::shared_ptr<const Names> names;
  double width_px = 0.0;  // on the screen where there is room; 0: by its size in points
};

struct Section {
  std::string title;
  std::vector<TextBlock> text;
  std::vector<PageFigure> figures;
  std::vector<std::string> problems;  // what could not be shown, in one line each
  std::vector<TextBlock> task;        // set apart under the figures; may be empty
  std::vector<int> slider_steps;      // ascending; empty: no slider
  std::size_t slider_at = 0;          // index into slider_steps of what is shown first, and printed
};

struct Page {
  std::string title;
  std::string summary;  // one paragraph under the title; may be empty
  std::vector<Section> sections;
  bool start_dark = false;             // else as the reader's system has it
  std::size_t most_bytes = 4'500'000;  // what is said at places is thinned out to stay below
};

/// The whole file, UTF-8. Throws WorkError where the page has no figure with a picture or a
/// figure's pictures are neither one nor as many as the slider has steps, and where it exceeds
/// `most_bytes` however much is thinned out.
std::string write_page(const Page& page);

}  // namespace kvloupe::figure::html
