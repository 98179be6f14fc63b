#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "app/figure/figure.h"
#include "app/scene/page_size.h"

namespace kvloupe::figure {

enum class FileFormat { svg, pdf, png, csv, html, tex };

/// By the ending of the name. Throws UsageError naming the valid endings.
FileFormat format_of(std::string_view file_name);

/// How a figure is written to a file.
struct FileOptions {
  std::optional<PageSize> size = {};  // absent: as high as the figure needs
  double width = 0.0;                 // points, if there is no size; 0: the figure's own
  double text = 8.0;                  // points: the size of its text
  Theme theme = Theme::light;
  AmountMap amounts = AmountMap::viridis;
  std::optional<bool> patterns = std::nullopt;  // beside the colours of fates; absent: by the theme
  bool title = false;
  bool caption = false;
  bool legend = true;
  double pixels_per_point = 300.0 / 72.0;  // of maps, if there is no size
  /// Visible part of the main axes, and limits of the colour bar; absent: all, the figure's own.
  std::optional<std::pair<double, double>> x_range = {};
  std::optional<std::pair<double, double>> y_range = {};
  std::optional<std::pair<double, double>> limits = {};
  bool operator==(const FileOptions&) const = default;
};

/// The page as written, with caption, settings and title. In the light theme the paper is white, as
/// in journals.
Scene page_of(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
              const TextMetrics& fonts);

/// The bytes of the file. Throws WorkError if the scene has errors, UsageError if the format is tex
/// and the figure is no table.
std::string file_of(const FigureInfo& info, const MadeFigure& made, FileFormat format,
                    const FileOptions& options, const TextMetrics& fonts);

}  // namespace kvloupe::figure
