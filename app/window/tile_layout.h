#pragma once

#include <span>
#include <vector>

#include "app/figure/scene.h"

namespace kvloupe::window {

/// Where tiles lie in an area of width × height pixels: in the rows and columns that give the
/// pictures, each of its own aspect (width / height), the largest area together; the last row's
/// tiles share its width. `gap` lies between tiles, `header` above each picture. Depends on nothing
/// else, so that the same window always has the same layout. Corners are whole pixels.
std::vector<figure::Rect> arrange_tiles(std::span<const double> aspects, double width, double height,
                                        double gap, double header);

}  // namespace kvloupe::window
