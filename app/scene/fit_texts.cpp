#include "app/scene/fit_texts.h"

#include <algorithm>
#include <vector>

namespace kvloupe::figure {

namespace {

constexpr double slack = 0.3;  // points that may stick out, or be shared

bool on_page(const Scene& scene, const Rect& r) {
  return r.x >= -slack && r.y >= -slack && r.right() <= scene.width + slack &&
         r.bottom() <= scene.height + slack;
}

bool overlap(const Rect& a, const Rect& b) {
  return std::min(a.right(), b.right()) - std::max(a.x, b.x) > slack &&
         std::min(a.bottom(), b.bottom()) - std::max(a.y, b.y) > slack;
}

}  // namespace

void keep_fitting_texts(Scene& scene) {
  std::vector<Rect> kept;
  const auto unfit = [&](const Item& item) {
    const Text* text = std::get_if<Text>(&item);
    if (text == nullptr || text->text.empty()) return text != nullptr;
    const Rect box = text->bounds();
    const bool hidden = std::any_of(kept.begin(), kept.end(),
                                    [&](const Rect& other) { return overlap(box, other); });
    if (!on_page(scene, box) || hidden) return true;
    kept.push_back(box);
    return false;
  };
  std::vector<Item> items;
  for (Item& item : scene.items) {
    if (!unfit(item)) items.push_back(std::move(item));
  }
  scene.items = std::move(items);
}

}  // namespace kvloupe::figure
