#pragma once
// Lines, bands and reference lines in a plot whose axes are already drawn. Data coordinates;
// everything outside the plot is clipped.

#include <span>
#include <string>

#include "app/plot/series.h"

namespace kvloupe::figure {

/// A line through the points, with a gap at points that are not finite (or not positive on a log
/// axis). With a `target` the pointer finds the line on the screen.
void add_line(Scene& scene, const Axes& axes, std::span<const Point> data, const SeriesLook& look,
              const Target& target = {});
/// The same with a mark at each point.
void add_marked_line(Scene& scene, const Style& style, const Axes& axes,
                     std::span<const Point> data, const SeriesLook& look, double mark_size = 3.4,
                     const Target& target = {});

/// The area between two lines over the same x. [n] each.
void add_band(Scene& scene, const Axes& axes, std::span<const double> x,
              std::span<const double> low, std::span<const double> high, Colour fill);

/// A small text inside a plot on a background of paper, so that it is readable over lines; faint
/// ink.
void add_note(Scene& scene, const Style& style, const std::string& text, Point anchor,
              Align align = Align::left);

/// A dashed line across the plot at a value of y (or of x), with its name at its end (along x also
/// at its start), inside.
void add_level(Scene& scene, const Style& style, const Axes& axes, double value,
               const std::string& name, bool along_x = true, bool name_at_start = false);

}  // namespace kvloupe::figure
