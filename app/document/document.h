#pragma once
// A document of text, tables and figures, and its two forms: one web page that needs no other
// files, and pages of A4. Plain data in, bytes out: a document has sections (a lesson's pages, the
// topics of a gallery, the parts of a report, or one for a single figure).

#include <cstddef>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/text/table.h"
#include "analysis/trace/given_tokens.h"
#include "app/document/figure_file.h"
#include "app/figure/figure.h"
#include "app/scene/scene.h"

namespace kvloupe::figure::document {

/// Words, and the address that they lead to.
using Link = std::pair<std::string, std::string>;

/// A piece of a line in one style. A link leads to http(s), mailto, or, on web pages, "./" beside
/// the page; other links are shown as plain text.
struct Run {
  std::string text;
  bool bold = false;
  bool italic = false;
  bool code = false;  // monospaced
  std::string link = {};
  bool pending = false;  // a number to come; in the window only
};

/// One paragraph, or one point of a list.
struct TextBlock {
  enum class Kind { paragraph, bullet, numbered };
  Kind kind = Kind::paragraph;
  std::vector<Run> runs;
  int number = 0;  // of a numbered point
};
using TextBlocks = std::vector<TextBlock>;

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
  std::string title = {};
  std::string about = {};  // one sentence before the picture; may be empty
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// Links under the caption: the text, and the address, relative to the page.
  std::vector<std::pair<std::string, std::string>> files = {};
  /// For a web page: one picture, or one for each step of the section's slider. The light scene's
  /// caption is shown.
  std::vector<Picture> pictures = {};
  std::shared_ptr<const Names> names = {};
  double width_px = 0.0;  // on the screen if there is room; 0: by its size in points
  /// For paper, where the figure is drawn in the width that it gets.
  const FigureInfo* info = nullptr;
  MadeFigure made = {};
  FileOptions options = {};
  std::string caption = {};  // on paper
  int number = 0;            // before the caption; 0: none
};

/// A part of a document; whatever is empty is left out. In this order on the page.
struct Section {
  std::string title = {};
  TextBlocks text = {};
  std::vector<std::string> problems = {};  // what could not be shown, in one line each
  std::vector<std::pair<std::string, std::string>> facts = {};  // name and value
  std::vector<int> slider_steps = {};                           // ascending; empty: no slider
  std::size_t slider_at = 0;  // index into slider_steps of the step shown first, and printed
  std::vector<PageFigure> figures = {};
  std::optional<Table> table = {};         // beside a single figure where there is room
  std::vector<std::string> commands = {};  // lines for a shell
  TextBlocks task = {};                    // set apart under the figures
  bool new_page = false;                   // begins one on paper
};

struct Document {
  std::string title;
  std::string summary;                // one paragraph under the title; may be empty
  std::vector<std::string> lead;      // paragraphs set apart before the sections, the first in bold
  std::vector<std::string> cautions;  // a list after them
  std::vector<Section> sections;
  std::vector<Link> links = {};  // beside the title, to files beside the web page
  std::string foot;  // under every page of paper and, without a script, under the web page
  std::vector<std::pair<std::string, std::string>> metadata;  // of the PDF file
  bool script = true;          // points at values; without one, the page is text and pictures
  Theme theme = Theme::light;  // a dark one is where the page begins, else the system's choice
  bool in_turn = true;         // one section at a time; else all, with a list of them
  std::size_t most_bytes = 4'500'000;  // texts of places are thinned out to stay below this
};

/// A web page that exceeds its `most_bytes` even after thinning out.
struct PageTooLarge : WorkError {
  using WorkError::WorkError;
};

/// The web page, UTF-8, also well-formed XML: head, style, text, figures in both themes, data,
/// script. It cannot load other files. Throws WorkError if the number of a figure's pictures is
/// neither one nor the slider's number of steps; PageTooLarge.
std::string write_page(const Document& document);

/// How a document looks on paper; lengths in points.
struct PaperLook {
  struct Size {
    double text, line;
  };
  double side, top, bottom;  // around the room of a page
  double before_section, before_figure;
  Size title, summary, heading, body, fine, caption;  // `fine`: facts, tables, lists, commands
  bool numbered;                                      // sections
  /// Sections share the pages that begin with `new_page`: their figures become lower until all
  /// fits. Otherwise a section's figures become lower where that keeps the section on its page, and
  /// paragraphs and single figures leave room at the right.
  bool shared;
};
extern const PaperLook kHandoutLook, kReportLook;

/// The pages as PDF, A4, text as text. Throws WorkError if Cairo fails.
std::string write_paper(const Document& document, const PaperLook& look, const TextMetrics& fonts);

/// Makes columns fit into `room` together: the widest give way first, to one width.
void fit_columns(std::vector<double>& widths, double room);

/// A paragraph of plain words.
TextBlock paragraph(std::string words);

/// A made figure as a part of a web page, with one picture: drawn in both themes (with the theme
/// high-contrast, this one is the dark one), with its caption and settings. A section with a slider
/// gets one picture from the figure of each step. The page's reader, not the options, sets size and
/// theme; title and caption are always shown.
PageFigure page_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                       const TextMetrics& fonts);

/// One figure as a page.
std::string figure_page(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts);

/// One picture of a gallery, or the reason why there is none.
struct GalleryPiece {
  const FigureInfo* info = nullptr;
  std::string name = {};                  // of its files, without their endings
  std::string shows = {};                 // which of several pictures; empty: the first
  std::vector<std::string> endings = {};  // of the files that were written: "svg", "html"
  PageFigure figure = {};                 // as page_figure(); without pictures if skipped
  std::string skipped = {};               // why; empty: it was not
};

/// The index of a gallery as one file: a section for each topic in the catalogue's order, each
/// figure with its title, its description, its picture in both themes, its caption and links to its
/// files beside the page; then the skipped figures with the reasons. `summary`: one paragraph under
/// the title. Throws WorkError if all pieces were skipped.
std::string gallery_page(std::string title, std::string summary, std::vector<GalleryPiece> pieces,
                         Theme theme);

/// JSON inside a page: nothing in it can end the element it stands in.
std::string embedded(const nlohmann::ordered_json& json);

/// page.css and page.js, as of the build of the program.
std::string_view page_style();
std::string_view page_script();

}  // namespace kvloupe::figure::document
