// A trace: opened, replayed, and drawn. Its texts are hostile: they stand on axes, in tooltips and
// in a page's script.

#include <memory>

#include "app/document/figure_file.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/walked_trace.h"

KVLOUPE_FUZZ_TARGET(figure) {
  using namespace kvloupe;
  using namespace kvloupe::figure;
  const std::filesystem::path path = fuzz::as_file(input, "trace.h5");
  if (test::walk_in_child(path) == test::Walked::crashed) return;
  const request::FigureMaker maker(std::make_shared<const Trace>(path));
  static const TextMetrics fonts;
  FileOptions options;
  options.size = parse_page_size("240x200px");
  const FigureInfo& strip = find_figure("filmstrip");
  Progress progress;
  const auto result = maker.make(strip, request::FigureSettings{}, progress);
  for (const FileFormat format : {FileFormat::svg, FileFormat::html, FileFormat::csv}) {
    fuzz::require(!file_of(strip, result, format, options, fonts).empty(), "a file without bytes");
  }
}
