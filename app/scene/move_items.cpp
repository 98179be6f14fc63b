#include "app/scene/move_items.h"

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

}  // namespace kvloupe::figure
