#pragma once

#include <string>
#include <vector>

#include "app/figure/scene.h"
#include "app/figure/text_metrics.h"

namespace kvloupe::figure {

/// The scene as a one-page PDF: fonts embedded, text selectable, images embedded once, settings in
/// the document information. Throws WorkError where Cairo fails.
std::string write_pdf(const Scene& scene, const TextMetrics& fonts);

/// A place on a page that opens an address in the web.
struct PdfLink {
  Rect rect;
  std::string address;  // http:// or https://, printable ASCII without quotes and backslashes
};

struct PdfPage {
  Scene scene;
  std::vector<PdfLink> links;
  std::vector<std::string> chapters;  // that start on it, for the reader's list of contents
};

/// Several pages as one PDF; what is said of the whole is the first scene's title, caption and
/// metadata. At least one page. Throws WorkError where Cairo fails.
std::string write_pdf(const std::vector<PdfPage>& pages, const TextMetrics& fonts);

/// The scene as pixels, each point being `pixels_per_point` of them; sides are rounded.
Pixels render(const Scene& scene, const TextMetrics& fonts, double pixels_per_point);

/// The scene as a PNG file, resolution and settings stated in it.
std::string write_png(const Scene& scene, const TextMetrics& fonts, double pixels_per_point);

}  // namespace kvloupe::figure
