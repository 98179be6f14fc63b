// Figures as web pages: one for itself, and the index of a gallery.

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "analysis/base/core/error.h"
#include "app/document/document.h"
#include "app/plot/text_flow.h"

namespace kvloupe::figure::document {

namespace {

// Maps on a screen: finer than a pixel of most, half the bytes of print.
constexpr double kMapPixelsPerPoint = 3.0;
// A figure that has the page for itself.
constexpr double kLargePixelsPerPoint = 2.2;
constexpr double kPageWidth = 1072.0;

/// The names of a figure's tokens; for several traces only if all hold the same tokens.
std::shared_ptr<const Names> names_of(const MadeFigure& made) {
  if (made.traces.empty()) return nullptr;
  const Trace& trace = *made.traces.front();
  const TokenTable& table = trace.tokens();
  for (const auto& other : made.traces) {
    if (other->tokens().ids != table.ids) return nullptr;
  }
  auto names = std::make_shared<Names>();
  if (!table.text.empty()) names->tokens = token_text(table, table.ids.size()).text;
  const GivenTokens given = given_tokens(trace);
  for (int token = 0; token < trace.length(); ++token) {
    std::string text = part_text(trace, given, token);
    if (names->parts.empty() || names->parts.back().second != text)
      names->parts.emplace_back(token, std::move(text));
  }
  names->steps = made.steps;
  return names;
}

/// Two figures of a column's width stand side by side.
constexpr double kIndexPixelsPerPoint = 2.0;

/// "SVG" for "svg"; a page is called so.
std::string link_text(const std::string& ending) {
  if (ending == "html") return "page with values";
  if (ending == "tex") return "LaTeX";
  std::string text = ending;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return text;
}

Section section_of(Topic topic, std::vector<GalleryPiece>& pieces) {
  Section section;
  section.title = heading(topic);
  for (GalleryPiece& piece : pieces) {
    if (piece.info->topic != topic || !piece.skipped.empty()) continue;
    PageFigure figure = std::move(piece.figure);
    figure.title =
        piece.info->title + (piece.shows.empty() ? std::string() : " (" + piece.shows + ")");
    Picture& picture = figure.pictures.front();
    picture.figure = nullptr;  // values are on the figure's own page
    if (figure.width_px <= 0)
      figure.width_px = std::min(kPageWidth, picture.light.width * kIndexPixelsPerPoint);
    figure.about = piece.info->tooltip + (piece.info->tooltip.ends_with('.') ? "" : ".");
    for (const std::string& ending : piece.endings)
      figure.files.emplace_back(link_text(ending), piece.name + "." + ending);
    section.figures.push_back(std::move(figure));
  }
  return section;
}

}  // namespace

PageFigure page_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                       const TextMetrics& fonts) {
  FileOptions drawn = options;
  drawn.title = drawn.caption = false;  // the page has them as text of its own
  drawn.pixels_per_point = std::min(options.pixels_per_point, kMapPixelsPerPoint);
  PageFigure out;
  Picture picture;
  drawn.theme = Theme::light;
  drawn.patterns = options.patterns.value_or(has_patterns(options.theme));  // equal in both
  picture.light = page_of(info, made, drawn, fonts);
  drawn.theme = options.theme == Theme::high_contrast ? options.theme : Theme::dark;
  picture.dark = page_of(info, made, drawn, fonts);
  picture.figure = made.figure;
  out.title = info.title;
  out.settings = picture.light.metadata;
  out.names = names_of(made);
  if (options.size && options.size->in_pixels)
    out.width_px = options.size->width * options.size->pixels_per_point;
  out.pictures.push_back(std::move(picture));
  return out;
}

std::string figure_page(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts) {
  Document page;
  page.title = info.title;
  page.theme = options.theme;
  Section section;
  section.figures.push_back(page_figure(info, made, options, fonts));
  PageFigure& figure = section.figures.back();
  figure.title.clear();  // it is the page's
  if (figure.width_px <= 0) {
    figure.width_px =
        std::min(kPageWidth, figure.pictures.front().light.width * kLargePixelsPerPoint);
  }
  page.sections.push_back(std::move(section));
  return write_page(page);
}

std::string gallery_page(std::string title, std::string summary, std::vector<GalleryPiece> pieces,
                         Theme theme) {
  Document page;
  page.title = std::move(title);
  page.summary = std::move(summary);
  page.in_turn = false;
  page.theme = theme;
  // It holds every picture; none of them may be left out for the sake of the page's size.
  page.most_bytes = std::numeric_limits<std::size_t>::max() / 2;
  for (const Topic topic : topics()) {
    Section section = section_of(topic, pieces);
    if (!section.figures.empty()) page.sections.push_back(std::move(section));
  }
  Section skipped;
  skipped.title = "Not in this gallery";
  for (const GalleryPiece& piece : pieces) {
    if (piece.skipped.empty()) continue;
    skipped.text.push_back(
        {TextBlock::Kind::bullet, {{piece.name, true}, {": " + piece.skipped + "."}}});
  }
  if (page.sections.empty()) throw WorkError("there is no figure for an index");
  if (!skipped.text.empty()) page.sections.push_back(std::move(skipped));
  return write_page(page);
}

}  // namespace kvloupe::figure::document
