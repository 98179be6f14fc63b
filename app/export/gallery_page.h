#pragma once

#include <string>
#include <vector>

#include "app/export/page.h"

namespace kvloupe::figure::html {

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
