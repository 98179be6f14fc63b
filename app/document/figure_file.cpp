#include "app/document/figure_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <sstream>

#include "analysis/base/core/error.h"
#include "app/document/document.h"
#include "app/plot/frame.h"
#include "app/scene/cairo_backend.h"
#include "app/scene/scene.h"
#include "app/scene/svg_backend.h"

namespace kvloupe::figure {

namespace {

constexpr double longest_page = 240.0 * kPointsPerMillimetre;  // a journal page's text is no higher

/// The settings in one line, for under the figure.
std::string settings_line(const FigureInfo& info, const MadeFigure& made) {
  std::string line;
  for (const auto& [key, value] : made.settings) {
    if (key == "figure" || key == "comparison") continue;  // the caption says this already
    const bool is_choice =
        std::any_of(info.choices.begin(), info.choices.end(),
                    [&, &name = key](const ChoiceInfo& one) { return one.name == name; });
    const std::string shown = key == "trace"        ? "Trace"
                              : key == "results"    ? "Results"
                              : key == "policy_b"   ? "policy B"
                              : key == "query_head" ? "query head"
                                                    : key;
    if (!line.empty()) line += ", ";
    line += key == "version" ? value : is_choice ? key + "=" + value : shown + " " + value;
  }
  return line + ".";
}

/// Everything in a scene, places to point at included, by so many points.
void move_down(Scene& scene, double by) {
  move_items(scene.items, {0.0, by});
  for (Axes& each : scene.axes) each.plot.y += by;
  for (PickRegion& region : scene.regions) region.rect.y += by;
  for (PickPoints& set : scene.point_sets) {
    for (Point& point : set.points) point.y += by;
  }
  for (PickLine& line : scene.lines) {
    for (Point& point : line.points) point.y += by;
    line.plot.y += by;
  }
}

/// The figure's table for LaTeX, its settings as comments.
std::string table_of(const FigureInfo& info, const MadeFigure& made) {
  const std::optional<Table> table = made.figure->table();
  if (!table) {
    throw UsageError("figure " + info.name +
                     " is no table, so it cannot be written as .tex; choose .csv, or .pdf for its "
                     "picture");
  }
  LatexFloat around{.caption = made.figure->caption(), .label = info.name};
  around.remarks = {"Needs \\usepackage{booktabs}."};
  for (const auto& [key, value] : made.settings) around.remarks.push_back(key + ": " + value);
  return latex_table(*table, around);
}

}  // namespace

FileFormat format_of(std::string_view file_name) {
  const std::size_t dot = file_name.rfind('.');
  std::string ending(dot == std::string_view::npos ? std::string_view()
                                                   : file_name.substr(dot + 1));
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  constexpr const char* kEndings[] = {"svg", "pdf", "png", "csv", "html", "tex"};  // [FileFormat]
  const auto* found = std::find(std::begin(kEndings), std::end(kEndings), ending);
  if (found != std::end(kEndings)) return static_cast<FileFormat>(found - kEndings);
  throw UsageError("-o " + std::string(file_name) +
                   ": the name must end in .svg, .pdf, .png, .csv, .html or, for a table, .tex");
}

Scene page_of(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
              const TextMetrics& fonts) {
  DrawRequest request{.style = make_style(fonts, options.theme, options.patterns)};
  request.style.amounts = options.amounts;
  request.style.small *= options.text / request.style.text;
  request.style.text = options.text;
  if (options.theme == Theme::light) request.style.colours.paper = {255, 255, 255};
  const Style& style = request.style;
  request.width = options.size        ? options.size->width
                  : options.width > 0 ? options.width
                                      : info.width_mm * kPointsPerMillimetre;
  request.pixels_per_point =
      options.size ? options.size->pixels_per_point : options.pixels_per_point;
  request.legend = options.legend;
  request.x_range = options.x_range;
  request.y_range = options.y_range;
  request.limits = options.limits;

  std::vector<std::string> lines;
  if (options.caption) {
    const double width = request.width - 4.0;
    lines = wrap(style, made.figure->caption(), style.small, width);
    for (std::string& line : wrap(style, settings_line(info, made), style.small, width))
      lines.push_back(std::move(line));
  }
  const double line_height = style.small * 1.35;
  const double above = options.title ? 1.75 * style.text : 0.0;
  const double below = lines.empty() ? 0.0 : static_cast<double>(lines.size()) * line_height + 6.0;
  if (options.size) {
    request.height = options.size->height - above;  // the caption stands below
    if (request.height < 20.0 * kPointsPerMillimetre)
      throw UsageError("--size: too small for the figure with its title; make it higher");
  } else {
    const double natural = made.figure->natural_height(request);
    request.height = natural > 0 ? natural : request.width / info.aspect;
    request.height = std::clamp(request.height, 30.0, longest_page - above - below);
  }

  Scene scene = made.figure->draw(request);
  if (options.title) {
    move_down(scene, above);
    scene.add(make_text(style,
                        style.fonts->fit(info.title, Font::bold, style.text, request.width - 4.0),
                        {2.0, 1.1 * style.text}, style.text, Font::bold));
  }
  scene.height = above + request.height + below;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    scene.add(make_text(
        style, lines[i],
        {2.0, above + request.height + 4.0 + (static_cast<double>(i) + 0.8) * line_height},
        style.small));
  }
  scene.title = info.title;
  scene.caption = made.figure->caption();
  scene.metadata = made.settings;
  for (const auto& [name, range] : {std::pair{"x_range", options.x_range},
                                    {"y_range", options.y_range},
                                    {"limits", options.limits}}) {
    if (range)
      scene.metadata.emplace_back(name,
                                  fmt::format("{:.6g} to {:.6g}", range->first, range->second));
  }
  return scene;
}

std::string file_of(const FigureInfo& info, const MadeFigure& made, FileFormat format,
                    const FileOptions& options, const TextMetrics& fonts) {
  if (format == FileFormat::csv) {
    std::ostringstream out;
    CsvWriter csv(out);
    for (const auto& [key, value] : made.settings) csv.comment(key, value);
    made.figure->write_csv(csv);
    return std::move(out).str();
  }
  if (format == FileFormat::tex) return table_of(info, made);
  if (format == FileFormat::html) return document::figure_page(info, made, options, fonts);
  const Scene scene = page_of(info, made, options, fonts);
  const PageSize size = options.size.value_or(PageSize{});
  switch (format) {
    case FileFormat::svg:
      return write_svg(scene, size.in_pixels ? size.pixels_per_point : 0.0);
    case FileFormat::pdf:
      return write_pdf(scene, fonts);
    default:
      return write_png(scene, fonts, size.pixels_per_point);
  }
}

}  // namespace kvloupe::figure
