#pragma once

#include <string>

#include "app/export/figure_file.h"
#include "app/export/page.h"

namespace kvloupe::figure::html {

/// A made figure as a part of a page, with one picture: drawn in both themes (with the theme
/// high-contrast, this one is the dark one), with its caption and
/// settings. A section with a slider gets one picture from the figure of each step. The page's
/// reader, not the options, sets size and theme; title and caption are always shown.
PageFigure page_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                       const TextMetrics& fonts);

/// One figure as a page.
std::string figure_page(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts);

}  // namespace kvloupe::figure::html
