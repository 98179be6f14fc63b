#pragma once
// The building blocks of figures: measured text, axes with ticks, maps with their colour bar,
// legends.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/plot/pattern.h"
#include "app/plot/ticks.h"
#include "app/scene/scene.h"
#include "app/scene/style.h"

namespace kvloupe::figure {

/// One measured line of text, ready to be added.
Text make_text(const Style& style, std::string text, Point anchor, double size,
               Font font = Font::regular, Align align = Align::left);
inline Text make_text(const Style& style, std::string text, Point anchor) {
  return make_text(style, std::move(text), anchor, style.text);
}

/// A stroked straight line.
Path make_line(Point from, Point to, Colour colour, double width, std::vector<double> dash = {});

/// Adds the path with this stroke; nothing if the path is empty.
void add_stroked(Scene& scene, Path path, Stroke stroke);

/// Breaks a paragraph into lines no wider than `width`.
std::vector<std::string> wrap(const Style& style, const std::string& text, double size,
                              double width);

/// `text` as it is if it is no wider than `width`; else without its last words and with "…". Words
/// end at a space, a comma or an opening bracket. If even the first word does not fit, its last
/// letters are cut.
std::string fit_words(const Style& style, const std::string& text, double size, double width);

/// Breaks a text into at most `most` lines no wider than `width`: after a space or a comma, before
/// a plus sign. The rest of a text that does not fit is cut.
std::vector<std::string> break_lines(const Style& style, const std::string& text, double size,
                                     double width, int most);

inline constexpr double x_overhang = 5.0;  // points; how far the name of an x axis may go beyond

/// How an axis is shown.
struct AxisLook {
  std::vector<Tick> ticks;
  bool line = true;    // the axis line itself
  bool labels = true;  // off if small multiples share an axis
  bool grid = false;
  bool turned = false;    // the labels read upwards: names too wide for their cells
  double overhang = 2.0;  // points; how far the name of a y axis may go beyond both its ends
  int name_lines = 1;     // over which the axis' name may go
  bool named = true;      // off where a neighbour's name stands for this axis, too
  // Between which the name of an x axis stands in the middle; equal: its plot.
  double name_from = 0.0, name_to = 0.0;
};

/// Ticks that fit the axis' length at the style's text size.
AxisLook axis_look(const Style& style, const Axis& axis, double length, bool horizontal);

/// Room at the left for ticks, labels and the turned axis name; room below the plot.
double left_margin(const Style& style, const Axis& y, const AxisLook& look);
double bottom_margin(const Style& style, const Axis& x, const AxisLook& look);

/// The lines that an axis' name takes in so much room: one, or two where it is longer.
int name_lines(const Style& style, const std::string& name, double room);

/// Whether there is room for the whole name of the x axis on a page of that width.
bool x_name_fits(const Style& style, const Axes& axes, double page);

/// Open axes at the left and the bottom, ticks outwards; registers the axes in the scene.
void add_axes(Scene& scene, const Style& style, const Axes& axes, const AxisLook& x,
              const AxisLook& y);

/// How values become colours.
struct ColourScale {
  bool is_signed = false;  // the diverging map, limits symmetric
  AmountMap map = AmountMap::viridis;
  AxisScale scale = AxisScale::linear;
  double low = 0.0;  // on a log scale > 0
  double high = 1.0;
  std::string label = {};
};

/// Colours of many values, with one table look-up each. NaN is transparent.
class ColourLookup {
 public:
  explicit ColourLookup(const ColourScale& scale);
  Colour operator()(double value) const;

 private:
  ColourScale scale_;
  std::array<Colour, 256> table_;
  double from_ = 0.0;
  double factor_ = 0.0;
};

/// Paints values [height,width], row-major.
std::shared_ptr<const Pixels> paint(std::span<const float> values, int width, int height,
                                    const ColourScale& scale);

/// Adds pixels as they are, no matter how large.
void add_image(Scene& scene, std::shared_ptr<const Pixels> pixels, const Rect& rect);

/// Room a colour bar takes at the right of a plot, gap and labels included.
double colour_bar_width(const Style& style, const ColourScale& scale, double height);
/// Draws the bar beside `plot`, as high as the plot.
void add_colour_bar(Scene& scene, const Style& style, const Rect& plot, const ColourScale& scale);

/// A legend entry: a marker, a piece of a line with or without one, or a small area with its
/// pattern; and its name.
struct LegendEntry {
  std::string label;
  MarkerShape shape = MarkerShape::circle;
  std::optional<Colour> fill = {};
  std::optional<Stroke> stroke = {};
  Pattern pattern = Pattern::none;  // of the area, drawn instead of the marker
  Colour pattern_colour = {};
  std::optional<Stroke> line = {};  // with the marker, if there is one, in its middle
};
/// One row (more if it does not fit) from the top left; returns its height, 0 without entries.
double add_legend(Scene& scene, const Style& style, Point corner, double width,
                  std::span<const LegendEntry> entries);

/// Bold a, b, c at the top left of a panel.
void add_panel_letter(Scene& scene, const Style& style, int panel, Point corner);

/// An empty scene of the request's size on the style's paper.
Scene make_scene(const Style& style, double width, double height);

/// An ink colour that is readable on a coloured background: dark or light.
Colour ink_on(Colour ground);

/// Adds texts that stand on coloured cells, each in the ink for its ground; one on a transparent
/// ground keeps its colour. In the theme of high contrast they stand on plates of paper, because no
/// ink has 7 : 1 on every colour of a map.
void add_on_grounds(Scene& scene, const Style& style, std::vector<Text> texts,
                    std::span<const Colour> grounds);

}  // namespace kvloupe::figure
