#pragma once

#include <string>
#include <vector>

#include "app/scene/scene.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::figure {

/// The scene as a one-page PDF: fonts embedded, text selectable, images embedded once, settings in
/// the document information. Throws WorkError if Cairo fails.
std::string write_pdf(const Scene& scene, const TextMetrics& fonts);

/// An area of a page that opens a web address.
struct PdfLink {
  Rect rect;
  std::string address;  // http:// or https://, printable ASCII without quotes and backslashes
};

struct PdfPage {
  Scene scene;
  std::vector<PdfLink> links = {};
  std::vector<std::string> chapters =
      {};  // that start on this page, for the reader's table of contents
};

/// Several pages as one PDF, with the first scene's title, caption and metadata. At least one page.
/// Throws WorkError if Cairo fails.
std::string write_pdf(const std::vector<PdfPage>& pages, const TextMetrics& fonts);

/// The scene as pixels, `pixels_per_point` for each point; the sides are rounded.
Pixels render(const Scene& scene, const TextMetrics& fonts, double pixels_per_point);

/// The scene as a PNG file, which also states resolution and settings.
std::string write_png(const Scene& scene, const TextMetrics& fonts, double pixels_per_point);

}  // namespace kvloupe::figure
