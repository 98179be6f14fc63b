#include "app/export/figure_page.h"

#include <algorithm>

#include "app/plot/text_flow.h"

namespace kvloupe::figure::html {

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
  names->segment = table.segment;
  names->segment_names = table.segment_names;
  names->steps = made.steps;
  return names;
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
  Page page;
  page.title = info.title;
  page.start_dark = options.theme != Theme::light;
  page.high_contrast = options.theme == Theme::high_contrast;
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

}  // namespace kvloupe::figure::html
