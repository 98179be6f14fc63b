#pragma once

#include <span>
#include <vector>

#include "app/figure/scene.h"

namespace kvloupe::window {

/// What a tile's picture asks for.
struct TileNeed {
  double aspect = 1.0;        // width / height it looks best at
  bool keeps_aspect = false;  // a map: room of another aspect stays empty
};

struct TileArrangement {
  std::vector<figure::Rect> places;  // [tiles], whole pixels from the top left, header included
  double height_used = 0.0;  // less than the area's where only maps are shown: the rest is free
};

/// Where tiles lie in an area of that size: in rows, in their order, of the arrangement whose
/// pictures come out largest together. Tiles of a row share its width by their aspects, rows the
/// height by what their pictures need; what is left goes to pictures that can be stretched.
TileArrangement arrange_tiles(std::span<const TileNeed> tiles, double width, double height,
                              double gap, double header);

}  // namespace kvloupe::window
