#pragma once
// Lines, bands and reference lines in a plot whose axes are already drawn. Data coordinates;
// everything outside the plot is clipped.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "app/plot/frame.h"
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

// Bars in a plot whose axes are drawn.

/// One bar from `from` to `to` on the value axis. It is the `place`-th of `count` that share cell
/// `cell` of the name axis. `upright`: values along y. An unfilled look has a paper-coloured bar
/// with an outline.
void add_bar(Scene& scene, const Style& style, const Axes& axes, double cell, double from,
             double to, const SeriesLook& look, int place = 0, int count = 1, bool upright = true);

/// A bar's number beside its end, if there is room.
void add_bar_number(Scene& scene, const Style& style, const Axes& axes, double cell, double to,
                    const std::string& text, int place = 0, int count = 1, bool upright = true);

// Points in a plot whose axes are drawn.

/// One mark for each point inside the plot. With `tokens` [n] (or empty) the pointer finds the
/// marks on the screen; with `targets` [n], whatever they are.
void add_dots(Scene& scene, const Style& style, const Axes& axes, std::span<const Point> data,
              const SeriesLook& look, double size = 3.0, std::span<const std::int32_t> tokens = {});
void add_dots(Scene& scene, const Style& style, const Axes& axes, std::span<const Point> data,
              const SeriesLook& look, double size, std::span<const Target> targets);

/// All values of one group as a strip of marks along the value axis, in the middle of cell `cell`
/// of the name axis, spread sideways (always in the same way) so that they do not hide each other.
/// `upright`: values along y, names along x.
void add_strip(Scene& scene, const Style& style, const Axes& axes, double cell,
               std::span<const double> values, const SeriesLook& look, bool upright = true,
               double size = 2.4);

// Box plots: median, quartiles, and whiskers to the last value within 1.5 interquartile ranges
// (Tukey), in a plot whose axes are drawn.

struct BoxNumbers {
  double low = 0.0;  // whiskers' ends
  double first_quartile = 0.0;
  double median = 0.0;
  double third_quartile = 0.0;
  double high = 0.0;
  std::vector<double> outliers;
  std::size_t count = 0;  // of finite values; 0: the other fields have no meaning
};
/// Quartiles by linear interpolation between the order statistics (R's type 7). Values that are not
/// finite are left out.
BoxNumbers box_numbers(std::span<const double> values);
/// The value below which a share of the finite values lies, interpolated as above; NaN for none.
double quantile(std::span<const double> values, double share);

/// One box at the middle of cell `cell` of the name axis. `upright`: values along y.
void add_box(Scene& scene, const Style& style, const Axes& axes, double cell,
             const BoxNumbers& numbers, const SeriesLook& look, bool upright = true);

// Distributions as ridges, one above the other, in a plot whose axes are already drawn: values
// along x, named rows along y.

/// A smooth estimate of the frequency of values, at `points` even places from low to high, with
/// maximum 1: a Gaussian kernel of Silverman's width over a fine histogram. Values outside the
/// range and those that are not finite are left out; all 0 if none are left.
std::vector<double> density(std::span<const float> values, double low, double high, int points);

/// One ridge over cell `cell` of the y axis, as high as the cell, with a tick at its median. The
/// selected ridge has the colour of a selection and a heavier line.
void add_ridge(Scene& scene, const Style& style, const Axes& axes, double cell,
               std::span<const float> values, bool chosen);

}  // namespace kvloupe::figure
