#include "app/export/gallery_page.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "app/figure/choice.h"

namespace kvloupe::figure::html {

namespace {

/// Two figures of a column's width stand side by side.
constexpr double kIndexPixelsPerPoint = 2.0;
constexpr double kIndexWidth = 1072.0;

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
    figure.about = piece.info->tooltip + (piece.info->tooltip.ends_with('.') ? "" : ".");
    for (const std::string& ending : piece.endings)
      figure.files.emplace_back(link_text(ending), piece.name + "." + ending);
    section.figures.push_back(std::move(figure));
  }
  return section;
}

}  // namespace

PageFigure index_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts) {
  PageFigure figure = page_figure(info, made, options, fonts);
  for (Picture& picture : figure.pictures) picture.figure = nullptr;
  if (figure.width_px <= 0) {
    figure.width_px =
        std::min(kIndexWidth, figure.pictures.front().light.width * kIndexPixelsPerPoint);
  }
  return figure;
}

std::string gallery_page(std::string title, std::string summary, std::vector<GalleryPiece> pieces,
                         Theme theme) {
  Page page;
  page.title = std::move(title);
  page.summary = std::move(summary);
  page.in_turn = false;
  page.start_dark = theme != Theme::light;
  page.high_contrast = theme == Theme::high_contrast;
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
    skipped.text.push_back(TextBlock{
        .kind = TextBlock::Kind::bullet,
        .runs = {{.text = piece.name, .bold = true}, {.text = ": " + piece.skipped + "."}}});
  }
  if (page.sections.empty()) throw WorkError("there is no figure for an index");
  if (!skipped.text.empty()) page.sections.push_back(std::move(skipped));
  return write_page(page);
}

}  // namespace kvloupe::figure::html
