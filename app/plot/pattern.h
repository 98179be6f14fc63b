#pragma once
// Lines and dots in addition to a colour, for eyes and printers that cannot tell colours apart.

#include <functional>

#include "app/scene/scene.h"

namespace kvloupe::figure {

enum class Pattern {
  none,
  rising,   // lines from the bottom left to the top right
  falling,  // from the top left to the bottom right
  level,    // from the left to the right
  dots,
};

/// Space between two lines or dots, in points.
constexpr double kPatternSpacing = 2.4;

/// Calls back with the ends of each line of a pattern of lines, cut at the rectangle. The lines lie
/// on one grid for the whole plane, so that the patterns of neighbours go on into each other.
void pattern_lines(Pattern pattern, const Rect& rect, double spacing,
                   const std::function<void(Point from, Point to)>& line);
/// Calls back with the centre of each dot in the rectangle; on one grid, too.
void pattern_dots(const Rect& rect, double spacing, const std::function<void(Point centre)>& dot);

/// A pattern of one colour over any number of rectangles of a scene.
class PatternFill {
 public:
  PatternFill(Pattern pattern, Colour colour) : pattern_(pattern), colour_(colour) {}
  /// Lines leave out a rectangle less than a point wide or high: they would be mere specks.
  void cover(const Rect& rect);
  /// Adds one item, or none where nothing is covered.
  void add_to(Scene& scene);

 private:
  Pattern pattern_;
  Colour colour_;
  Path lines_;
  std::vector<Point> dots_;
};

}  // namespace kvloupe::figure
