#pragma once
// How the members of a comparison are told apart: by colour, and by a second cue for print in grey.

#include <string>
#include <vector>

#include "app/plot/frame.h"

namespace kvloupe::figure {

struct SeriesLook {
  Colour colour;
  std::vector<double> dash = {};  // of its line
  MarkerShape shape = MarkerShape::circle;
  bool filled = true;  // of its marks
  double width = 1.1;  // of its line
  bool marked = true;  // whether the sample in a legend has a mark
};

/// The number of colours; further series have them again, with other marks. The second eight are
/// thinner, too, to differ where lines have no marks.
inline constexpr int kSeriesColours = 8;
/// The number of looks; further series repeat them.
inline constexpr int kSeriesLooks = 24;

/// The look of the series with this index: blue and vermillion first, like policies A and B.
SeriesLook series_look(const Style& style, int place);

/// The look of a line of chance, below which nothing helps: thin, grey and dashed, without marks.
SeriesLook chance_look(const Style& style);

/// A mark of that look, filled or open.
Markers series_marks(const Style& style, const SeriesLook& look, double size,
                     std::vector<Point> points);

/// A label at the end of a line or beside a group of marks: a sample and a name, in ink.
struct SeriesLabel {
  std::string text;
  double y = 0.0;  // preferred position on the page
  SeriesLook look;
};

/// Room that such labels need beside a plot, at most `most` points.
double series_label_room(const Style& style, const std::vector<std::string>& names,
                         double most = 92.0);

/// The labels from `x` on, moved apart if they overlap, between `top` and `bottom`.
void add_series_labels(Scene& scene, const Style& style, double x, double room, double top,
                       double bottom, std::vector<SeriesLabel> labels);

/// A row of samples and names, more rows if it does not fit; returns its height. For panels that
/// share their series, and for lines whose ends are too close together for labels.
double add_series_legend(Scene& scene, const Style& style, Point corner, double width,
                         const std::vector<SeriesLabel>& labels);

}  // namespace kvloupe::figure
