// kvloupe gallery: every figure in every format.

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "app/cli/commands.h"
#include "app/cli/figure_options.h"
#include "app/figure/figure_catalog.h"

namespace kvloupe::cli {

namespace {

struct GalleryOptions {
  std::string trace;
  std::string folder;
  FigureOptions options;
};

int run_gallery(const GalleryOptions& o) {
  const figure::FigureSettings settings = settings_of(o.options);
  const figure::FileOptions file_options = file_options_of(o.options);
  const auto trace = std::make_shared<const Trace>(o.trace);
  figure::FigureMaker maker(trace);
  std::error_code error;
  std::filesystem::create_directories(o.folder, error);
  if (error)
    throw FileError(o.folder, "cannot be made a folder (" + error.message() + "); choose another");
  const figure::TextMetrics fonts;
  warn_about_fonts(fonts);
  Progress progress;
  for (const figure::FigureInfo& info : figure::figure_catalog()) {
    const std::string why = info.needs.fewest_traces > 1 ? "it compares traces; see export"
                                                         : info.unavailable(*trace);
    if (!why.empty()) {
      std::printf("%s: skipped: %s\n", info.name.c_str(), why.c_str());
      continue;
    }
    const figure::MadeFigure made = maker.make(info, settings, progress);
    for (const char* ending : {"svg", "pdf", "png", "csv"}) {
      const std::filesystem::path path =
          std::filesystem::path(o.folder) / (info.name + "." + ending);
      OutputFile file(path.string());
      file.write(
          figure::file_of(info, made, figure::format_of(path.string()), file_options, fonts));
      file.finish();
    }
    std::printf("%s: svg pdf png csv\n", info.name.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

void add_gallery(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("gallery", "Write every figure in every format; needs no display");
  const auto options = std::make_shared<GalleryOptions>();
  verb->add_option("TRACE", options->trace, "The trace file")->required();
  verb->add_option("-o,--output", options->folder, "Folder; made where it is missing")->required();
  add_figure_options(*verb, options->options);
  verb->callback([&action, options] { action = [options] { return run_gallery(*options); }; });
}

}  // namespace kvloupe::cli
