#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::window {

/// The needs of a tile's picture.
struct TileNeed {
  double aspect = 1.0;        // preferred width / height
  bool keeps_aspect = false;  // a map: room of another aspect stays empty
  double least_width = 0.0;   // below these, in pixels, it cannot be read
  double least_height = 0.0;
  double share = 0.0;  // of its row's width, as chosen by hand; 0: by its aspect
};

/// The smallest room, in units of the window's scale, in which a picture of this aspect can be
/// read: its axes, legend and texts do not shrink with it.
TileNeed with_least_room(TileNeed need, double aspect, double unit);

struct TileArrangement {
  std::vector<figure::Rect> places;  // [tiles], whole pixels from the top left, header included
  double height_used = 0.0;  // less than the area's where only maps are shown: the rest is free
  bool legible = true;       // every picture has its least room
  unsigned breaks = 0;       // bit i: a new row begins after tile i
};

/// The places of tiles in an area of this size: in rows, in their order. The function chooses the
/// arrangement with the largest pictures, if possible among those in which all pictures can be
/// read. Tiles of a row share its width by their aspects, rows share the height by the needs of
/// their pictures; the rest goes to pictures that can be stretched. Shares chosen by hand do not
/// decide about the rows and their heights; they hold where every tile of a row has one, as far as
/// all can be read. `rows`: the rows of an arrangement before, which stay where all pictures can be
/// read in them.
TileArrangement arrange_tiles(std::span<const TileNeed> tiles, double width, double height,
                              double gap, double header,
                              std::optional<unsigned> rows = std::nullopt);

/// The panels around the tiles, or a flag for each of them.
struct Panels {
  bool left = false;
  bool right = false;
  bool bottom = false;
  bool operator==(const Panels&) const = default;
};

/// Sizes in pixels.
struct StageSizes {
  bool operator==(const StageSizes&) const = default;
  double left = 0.0, right = 0.0;  // widths of the side panels
  double bottom = 0.0;             // height of the panel below
  double side_rail = 0.0;          // width of what is left of a folded side panel
  double bottom_rail = 0.0;        // height of what is left of the folded panel below
  double margin = 0.0;             // at each side of the tiles
  double below = 0.0;              // under the tiles
  double gap = 0.0;                // between them
  double header = 0.0;             // above each picture
  double tabs = 0.0;               // the line that names the tiles where not all are in sight
};

/// The visible panels and tiles.
struct StageLayout {
  Panels open;            // of those wanted; a wanted one that is not open is a rail
  std::size_t first = 0;  // tiles first … first + count − 1 are in sight
  std::size_t count = 0;
  figure::Rect centre;  // between the panels, from the area's top left
};

/// Decides what is hidden if there is not enough room to read everything. First panels fold, as few
/// as possible: the bottom one before the left one before the right one. If that is not enough, the
/// tiles are shown in groups, as many at once as can be read: the group with the active tile. If
/// not even one tile can be read, it gets the whole area.
StageLayout lay_out_stage(std::span<const TileNeed> tiles, std::size_t active, Panels wanted,
                          const StageSizes& sizes, double width, double height);

/// As lay_out_stage, with panels as large as `wanted` where nothing more folds or leaves sight
/// because of it than with the sizes `least`; else as large as that allows, the panels of `order`
/// one after the other. Writes the sizes into `wanted`.
StageLayout lay_out_stage_with(std::span<const TileNeed> tiles, std::size_t active,
                               Panels wanted_panels, const StageSizes& least, StageSizes& wanted,
                               std::span<double StageSizes::*const> order, double width,
                               double height);

/// Widths in pixels of the controls above a picture, each with the space before it.
struct HeaderNeed {
  double title = 0.0;
  double side = 0.0;            // which policy; 0: not asked for
  std::vector<double> choices;  // each with its name
  double reset = 0.0;           // 0: nothing to reset
  double more = 0.0;            // the button of a list of what has no room
  double dot = 0.0;             // at the right end
};

/// The controls that are shown in the line; the others are in the list.
struct HeaderLayout {
  double title = 0.0;  // width; less than needed: cut
  bool side = false;
  std::size_t choices = 0;  // the first so many
  bool reset = false;
  bool more = false;
};

/// Shares the width of a line: the title keeps its width as long as there is room, then come the
/// policy, the reset button and the choices in their order. Nothing extends beyond the line.
HeaderLayout lay_out_header(const HeaderNeed& need, double width);

}  // namespace kvloupe::window
