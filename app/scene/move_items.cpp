#include "app/scene/move_items.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kvloupe::figure {

void move_items(std::vector<Item>& items, Point by) {
  const auto move = [by](Point& point) {
    point.x += by.x;
    point.y += by.y;
  };
  const auto move_rect = [by](Rect& rect) {
    rect.x += by.x;
    rect.y += by.y;
  };
  for (Item& item : items) {
    if (auto* path = std::get_if<Path>(&item)) {
      for (Point& point : path->points) move(point);
    }
    if (auto* markers = std::get_if<Markers>(&item)) {
      for (Point& point : markers->points) move(point);
    }
    if (auto* text = std::get_if<Text>(&item)) move(text->anchor);
    if (auto* image = std::get_if<Image>(&item)) move_rect(image->rect);
    if (auto* clip = std::get_if<PushClip>(&item)) move_rect(clip->rect);
  }
}

namespace {
constexpr double kPointsPerInch = 72.0;
constexpr double kMostPixels = 1 << 24;

/// How often to repeat each of `pixels` over so many points.
double repeats(double points, int pixels, double per_inch) {
  return std::max(1.0, std::ceil(points / kPointsPerInch * per_inch / pixels));
}
}  // namespace

std::shared_ptr<const Pixels> enlarged(const Image& image, double per_inch) {
  const auto& from = image.pixels;
  if (!from || from->width <= 0 || from->height <= 0) return from;
  if (image.interpolation == Interpolation::smooth) return from;
  double across = repeats(image.rect.width, from->width, per_inch);
  double down = repeats(image.rect.height, from->height, per_inch);
  const double size = across * from->width * down * from->height;
  if (size > kMostPixels) {
    const double shrink = std::sqrt(kMostPixels / size);
    across = std::max(1.0, std::floor(across * shrink));
    down = std::max(1.0, std::floor(down * shrink));
  }
  if (across == 1.0 && down == 1.0) return from;

  const auto columns = static_cast<std::size_t>(across), rows = static_cast<std::size_t>(down);
  auto result = std::make_shared<Pixels>();
  result->width = from->width * static_cast<int>(columns);
  result->height = from->height * static_cast<int>(rows);
  const std::size_t row_bytes = static_cast<std::size_t>(result->width) * 4;
  result->rgba.resize(row_bytes * static_cast<std::size_t>(result->height));
  const std::uint8_t* source = from->rgba.data();
  std::uint8_t* out = result->rgba.data();
  for (int y = 0; y < from->height; ++y) {
    std::uint8_t* const first_row = out;
    for (int x = 0; x < from->width; ++x, source += 4) {
      for (std::size_t i = 0; i < columns; ++i) out = std::copy_n(source, 4, out);
    }
    for (std::size_t i = 1; i < rows; ++i) out = std::copy_n(first_row, row_bytes, out);
  }
  return result;
}

}  // namespace kvloupe::figure
