#include "app/window/tile_layout.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::window {

namespace {

/// Tiles in rows of `columns`, the last row filled by what is left.
std::vector<figure::Rect> in_columns(int count, int columns, double width, double height, double gap) {
  const int rows = (count + columns - 1) / columns;
  const double tile_height = std::max(1.0, std::floor((height - gap * (rows - 1)) / rows));
  std::vector<figure::Rect> places;
  for (int i = 0; i < count; ++i) {
    const int row = i / columns;
    const int in_row = std::min(columns, count - row * columns);
    const double tile_width = std::max(1.0, std::floor((width - gap * (in_row - 1)) / in_row));
    places.push_back({std::floor((i % columns) * (tile_width + gap)),
                      std::floor(row * (tile_height + gap)), tile_width, tile_height});
  }
  return places;
}

/// The area of a picture of that aspect in a tile.
double picture_area(const figure::Rect& tile, double aspect, double header) {
  const double room = std::max(1.0, tile.height - header);
  const double picture_width = std::min(tile.width, room * aspect);
  return picture_width * picture_width / aspect;
}

}  // namespace

std::vector<figure::Rect> arrange_tiles(std::span<const double> aspects, double width, double height,
                                        double gap, double header) {
  const int count = static_cast<int>(aspects.size());
  std::vector<figure::Rect> best;
  double largest = -1.0;
  // The most columns first: of equal arrangements the one side by side.
  for (int columns = count; columns >= 1; --columns) {
    std::vector<figure::Rect> places = in_columns(count, columns, width, height, gap);
    double area = 0.0;
    for (std::size_t i = 0; i < places.size(); ++i) area += picture_area(places[i], aspects[i], header);
    if (area > largest) {
      largest = area;
      best = std::move(places);
    }
  }
  return best;
}

}  // namespace kvloupe::window
