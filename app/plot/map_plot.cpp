#include "app/plot/map_plot.h"

#include <algorithm>

namespace kvloupe::figure {

namespace {

struct Room {
  double left = 0.0;
  double right = 0.0;
  double bottom = 0.0;
};

/// Room the axes and the bar take around a map of about this size.
Room room_around(const Style& style, const MapPlot& plot, double width, double height) {
  Room room;
  room.left =
      plot.left + plot.inset + left_margin(style, plot.y, axis_look(style, plot.y, height, false));
  room.bottom = plot.bottom + bottom_margin(style, plot.x, axis_look(style, plot.x, width, true));
  room.right = plot.right;
  if (plot.colour_bar) {
    room.right += colour_bar_width(style, plot.scale, height);
  } else {
    room.right += style.small;  // half of the last tick label
  }
  return room;
}

}  // namespace

Rect map_rect(const Style& style, const MapPlot& plot, double width, double height) {
  double w = width;
  double h = height;
  Room room;
  for (int pass = 0; pass < 3; ++pass) {  // ticks depend on the size, the size on the ticks
    room = room_around(style, plot, w, h);
    w = std::max(10.0, width - room.left - room.right);
    h = std::max(10.0, height - plot.top - room.bottom);
    if (plot.aspect > 0) {
      w = std::min(w, h * plot.aspect);
      h = w / plot.aspect;
    }
  }
  const double spare = width - room.left - room.right - w;
  return {room.left + std::max(0.0, spare / 2), plot.top, w, h};
}

double map_natural_height(const Style& style, const MapPlot& plot, double width) {
  double w = width;
  Room room;
  for (int pass = 0; pass < 3; ++pass) {
    room = room_around(style, plot, w, w / plot.aspect);
    w = std::max(10.0, width - room.left - room.right);
  }
  return plot.top + w / plot.aspect + room.bottom;
}

void add_map(Scene& scene, const Style& style, const MapPlot& plot, const Rect& rect,
             std::shared_ptr<const Pixels> pixels, const std::array<double, 4>& covers) {
  const Axes axes{rect, plot.x, plot.y};
  const Point from = axes.to_page(covers[0], covers[2]);
  const Point to = axes.to_page(covers[1], covers[3]);
  const Rect whole{from.x, from.y, to.x - from.x, to.y - from.y};
  const bool inside = whole.x >= rect.x - 1e-6 && whole.y >= rect.y - 1e-6 &&
                      whole.right() <= rect.right() + 1e-6 &&
                      whole.bottom() <= rect.bottom() + 1e-6;
  if (!inside) scene.add(PushClip{rect});
  add_image(scene, std::move(pixels), whole);
  if (!inside) scene.add(PopClip{});
  AxisLook y_look = axis_look(style, plot.y, rect.height, false);
  if (plot.inset > 0.0) {
    y_look = {};
    y_look.labels = y_look.line = false;
  }
  add_axes(scene, style, axes, axis_look(style, plot.x, rect.width, true), y_look);
  if (plot.colour_bar) add_colour_bar(scene, style, rect, plot.scale);
}

}  // namespace kvloupe::figure
