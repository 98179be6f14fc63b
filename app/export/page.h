#pragma once
// Figures as one web page that needs no other files: pictures as inline SVG with real text, in both
// themes, and the window's tooltip texts. Plain data in, bytes out: a page has sections (a lesson's
// pages, or one for a single figure), a section has text and figures. A figure of a section with a
// slider has one picture for each step of the slider.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/error.h"
#include "analysis/trace/given_tokens.h"
#include "app/export/figure_file.h"
#include "app/figure/figure.h"
#include "app/scene/scene.h"

namespace kvloupe::figure::html {

/// A piece of a line in one style. A link that is not http(s) or mailto is shown as plain text.
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

/// A figure drawn once for each theme, and the texts at its places.
struct Picture {
  Scene light;
  Scene dark;
  std::shared_ptr<const Figure> figure;  // of value_text; absent: places have no values
};

/// The names of tokens and steps.
struct Names {
  std::vector<std::string> tokens;  // [T] as shown; may be empty
  /// What is said of the tokens from one token on, up to the next of these.
  std::vector<std::pair<int, std::string>> parts;
  std::vector<Block> steps;  // tokens of each step; may be empty
};

struct PageFigure {
  std::string title;
  std::string about = {};  // one sentence before the picture; may be empty
  std::vector<std::pair<std::string, std::string>> settings;
  /// Links under the caption: the text, and the address, relative to the page.
  std::vector<std::pair<std::string, std::string>> files = {};
  /// One picture, or one for each step of the section's slider. The light scene's caption is shown.
  std::vector<Picture> pictures;
  std::shared_ptr<const Names> names;
  double width_px = 0.0;  // on the screen if there is room; 0: by its size in points
};

struct Section {
  std::string title;
  std::vector<TextBlock> text;
  std::vector<PageFigure> figures;
  std::vector<std::string> problems;  // what could not be shown, in one line each
  std::vector<TextBlock> task;        // set apart under the figures; may be empty
  std::vector<int> slider_steps;      // ascending; empty: no slider
  std::size_t slider_at = 0;  // index into slider_steps of the step shown first, and printed
};

struct Page {
  std::string title;
  std::string summary;  // one paragraph under the title; may be empty
  std::vector<Section> sections;
  bool start_dark = false;             // else as the reader's system prefers
  bool in_turn = true;                 // one section at a time; else all, with a list of them
  bool high_contrast = false;          // the dark scenes are of that theme, and so is the page
  std::size_t most_bytes = 4'500'000;  // texts of places are thinned out to stay below this
};

/// A page that exceeds its `most_bytes` even after thinning out.
struct PageTooLarge : WorkError {
  using WorkError::WorkError;
};

/// The whole file, UTF-8. Throws WorkError if the page has no figure with a picture, or if the
/// number of a figure's pictures is neither one nor the slider's number of steps; PageTooLarge.
std::string write_page(const Page& page);

/// A made figure as a part of a page, with one picture: drawn in both themes (with the theme
/// high-contrast, this one is the dark one), with its caption and
/// settings. A section with a slider gets one picture from the figure of each step. The page's
/// reader, not the options, sets size and theme; title and caption are always shown.
PageFigure page_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                       const TextMetrics& fonts);

/// One figure as a page.
std::string figure_page(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts);

/// One picture of a gallery, or the reason why there is none.
struct GalleryPiece {
  const FigureInfo* info = nullptr;
  std::string name;                  // of its files, without their endings
  std::string shows;                 // which of a figure's several pictures; empty: the first
  std::vector<std::string> endings;  // of the files that were written: "svg", "html"
  PageFigure figure;                 // without pictures where it was skipped
  std::string skipped;               // why; empty: it was not
};

/// The same picture as page_figure(), for an index: without values under the pointer.
PageFigure index_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts);

/// The index of a gallery as one file: a section for each topic in the catalogue's order, each
/// figure with its title, its description, its picture in both themes, its caption and links to its
/// files beside the page; then the skipped figures with the reasons. `summary`: one paragraph under
/// the title. Throws WorkError if all pieces were skipped.
std::string gallery_page(std::string title, std::string summary, std::vector<GalleryPiece> pieces,
                         Theme theme);

}  // namespace kvloupe::figure::html
