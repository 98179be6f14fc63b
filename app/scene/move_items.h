#pragma once

#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// Everything drawn, moved on the page.
void move_items(std::vector<Item>& items, Point by);

/// An image's pixels, each repeated so that the drawn image has at least `per_inch` pixels per
/// inch. For files that other programs draw: many of them smooth an enlarged image, whatever the
/// file asks for, and blur its cells; at 300 per inch this is not visible. Images that should be
/// smooth, or that already have so many pixels, are returned unchanged; none grows beyond 2²⁴
/// pixels.
std::shared_ptr<const Pixels> enlarged(const Image& image, double per_inch = 300.0);

}  // namespace kvloupe::figure
