#pragma once
// A figure, drawn once: paths, markers, text, images and clips in points (1/72 inch), the origin at
// the top left, y downwards. Independent of graphics libraries: the screen, PDF, PNG, SVG and the
// text dump are back ends. A scene also has the meaning of its axes and the target at each place,
// so that the pointer on the screen reads the same figure as on paper.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace kvloupe::figure {

struct Point {
  double x = 0.0;
  double y = 0.0;
  bool operator==(const Point&) const = default;
};

struct Rect {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  Point centre() const { return {x + width / 2, y + height / 2}; }
  bool contains(Point p) const { return p.x >= x && p.x <= right() && p.y >= y && p.y <= bottom(); }
  bool operator==(const Rect&) const = default;
};

/// sRGB, straight alpha.
struct Colour {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;
  std::uint8_t alpha = 255;
  Colour with_alpha(double share) const {
    return {red, green, blue, static_cast<std::uint8_t>(share * 255.0 + 0.5)};
  }
  bool operator==(const Colour&) const = default;
};

enum class Cap { butt, round };

struct Stroke {
  Colour colour;
  double width = 0.5;             // points
  std::vector<double> dash = {};  // points on, off, ...; empty: solid
  Cap cap = Cap::butt;
};

enum class PathVerb : std::uint8_t { move, line, curve, close };

/// Sub-paths, filled (non-zero winding) and then stroked. A curve takes three points: two controls
/// and its end.
struct Path {
  std::vector<PathVerb> verbs = {};
  std::vector<Point> points = {};
  std::optional<Colour> fill = std::nullopt;
  std::optional<Stroke> stroke = std::nullopt;

  Path& move(Point p);
  Path& line(Point p);
  Path& curve(Point control1, Point control2, Point end);
  Path& close();
  Path& rect(const Rect& r);
};

enum class MarkerShape { circle, square, diamond, triangle, triangle_down, star };

/// Many points of one style: one item for any number of points. `size` is the diameter in points.
struct Markers {
  MarkerShape shape = MarkerShape::circle;
  double size = 3.0;
  std::optional<Colour> fill = std::nullopt;
  std::optional<Stroke> stroke = std::nullopt;
  std::vector<Point> points = {};
};

/// Outline of one marker around the origin, for back ends without markers of their own.
Path marker_path(MarkerShape shape, double size);

enum class Font { regular, bold, mono, italic };
enum class Align { left, centre, right };

/// One line of text. The anchor is on the baseline; `width` is its advance as measured by
/// TextMetrics, the same on every back end. Turned text reads upwards (90° anticlockwise), its
/// alignment being along the text.
struct Text {
  std::string text;  // UTF-8
  Point anchor;
  double size = 8.0;  // points
  Font font = Font::regular;
  Align align = Align::left;
  bool turned = false;
  Colour colour;
  double width = 0.0;

  /// The start of the baseline.
  Point start() const;
  /// Bounding box: advance by ascent (0.75 size) and descent (0.22 size).
  Rect bounds() const;
};

/// 8-bit RGBA, straight alpha, row-major from the top left.
struct Pixels {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> rgba;  // [height,width,4]
};

enum class Interpolation { nearest, smooth };

struct Image {
  std::shared_ptr<const Pixels> pixels;
  Rect rect;
  std::string key;  // equal where the pixels are: textures persist under it
  Interpolation interpolation = Interpolation::nearest;
};

/// Clips the following items to the intersection of all rectangles that were pushed and not yet
/// popped.
struct PushClip {
  Rect rect;
};
struct PopClip {};

using Item = std::variant<Path, Markers, Text, Image, PushClip, PopClip>;

enum class AxisMeaning { token, step, layer, head, value };
enum class AxisScale { linear, log };

/// Data along one side of a plot. Tokens, steps, layers and heads are cells: entry i covers
/// [i, i+1).
struct Axis {
  AxisMeaning meaning = AxisMeaning::value;
  AxisScale scale = AxisScale::linear;
  double first = 0.0;  // at the left (x) or the top (y) edge
  double last = 1.0;   // at the right or the bottom edge
  std::string label;
  /// The cell at which cells change their size (linear axes): the part from `first` to the knee
  /// takes `knee_share` of the side. Absent: all cells have one size.
  std::optional<double> knee = std::nullopt;
  double knee_share = 0.0;
  /// Names of cells, for an axis of things that are not numbers: names[i] covers [i, i+1).
  std::vector<std::string> names = {};

  /// Position of a value as a share of the side; the inverse. On a log axis the value must be > 0.
  double share_of(double value) const;
  double value_at(double share) const;
  /// Shows only this part, in the axis' own direction: values that grow upwards still do.
  void show(std::pair<double, double> part);
};

struct Axes {
  Rect plot;
  Axis x;
  Axis y;
  Point to_page(double x_value, double y_value) const;
  Point to_data(Point page) const;
};

/// The data under a point; -1 or NaN for unknown fields. On a map of tokens by tokens, `token` is
/// the key (x) and `other_token` the query (y).
struct Target {
  int token = -1;
  int other_token = -1;
  int step = -1;
  int layer = -1;
  int head = -1;
  int query_head = -1;  // of the head's group, where a mark is of this one alone
  int run = -1;         // of an evaluation: the first of those that a cell shows
  bool operator==(const Target&) const = default;
};

struct PickRegion {
  Rect rect;
  Target target;
};

/// Points that the pointer finds: a scatter plot. Each is a token, or a head.
struct PickPoints {
  std::vector<Point> points;
  std::vector<std::int32_t> tokens;  // [points]; empty where the points have `targets`
  double radius = 4.0;               // points
  std::vector<Target> targets = {};  // [points] with layer and head; empty: they are tokens

  Target target(std::size_t point) const;
};

/// A curve that the pointer finds, as one run of straight pieces: those of a head.
struct PickLine {
  std::vector<Point> points;  // on the page; two or more
  Target target;
  Rect plot;  // what is outside is not drawn
};

/// How near a line the pointer finds it, points: five pixels of the window.
inline constexpr double kLineReach = 3.0;

struct Scene {
  double width = 0.0;  // points
  double height = 0.0;
  Colour background{255, 255, 255, 255};
  std::vector<Item> items;
  std::vector<Axes> axes;
  std::vector<PickRegion> regions;
  std::vector<PickPoints> point_sets;
  std::vector<PickLine> lines;  // in the order in which they are drawn
  std::vector<std::pair<std::string, std::string>>
      metadata;  // trace, spec, layer, head, version, ...
  std::string title;
  std::string caption;  // settings and legend in words; drawn only with --caption

  template <typename T>
  T& add(T item) {
    return std::get<T>(items.emplace_back(std::move(item)));
  }

  /// The target at this point: the nearest pick point, else the nearest line within kLineReach,
  /// else the last region, else the cell of the axes under it. Fields that a line or a region
  /// leaves open, such as the token in a head's row, come from the axes under it.
  std::optional<Target> pick(Point p) const;
  /// The line that pick() finds there; nullptr: none.
  const PickLine* line_at(Point p) const;
  /// The places that show a target: bands of a plot, regions, points (as empty rectangles). Fields
  /// of the target that are -1 match anything; only fields that the place itself has are compared.
  std::vector<Rect> where(const Target& target) const;
};

/// Everything drawn, moved on the page.
void move_items(std::vector<Item>& items, Point by);

/// An image's pixels, each repeated so that the drawn image has at least `per_inch` pixels per
/// inch. For files that other programs draw: many of them smooth an enlarged image, whatever the
/// file asks for, and blur its cells; at 300 per inch this is not visible. Images that should be
/// smooth, or that already have so many pixels, are returned unchanged; none grows beyond 2²⁴
/// pixels.
std::shared_ptr<const Pixels> enlarged(const Image& image, double per_inch = 300.0);

/// For small pages: removes texts that are outside the page or overlap a text that was added
/// earlier. A page of the figure's own size has no such texts.
void keep_fitting_texts(Scene& scene);

}  // namespace kvloupe::figure
