#pragma once

#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// Everything drawn, moved on the page.
void move_items(std::vector<Item>& items, Point by);

}  // namespace kvloupe::figure
