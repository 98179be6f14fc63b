#include "app/window/tile_layout.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kvloupe::window {

namespace {

constexpr double kLeastShare = 0.6;  // of an equal share of a row's width
constexpr double kStretch = 1.6;     // a picture stretched further than that gains nothing

struct Row {
  std::size_t first = 0;
  std::size_t count = 0;
  std::vector<double> widths;
  double natural = 0.0;  // height that its pictures ask for
  double height = 0.0;   // of its pictures
  bool stretches = false;
};

Row make_row(std::span<const TileNeed> tiles, std::size_t first, std::size_t count, double width,
             double gap) {
  Row row{first, count, {}, 0.0, 0.0, false};
  const double room = std::max(1.0, width - gap * static_cast<double>(count - 1));
  double shares = 0.0;
  const auto tile = [&](std::size_t i) -> const TileNeed& { return tiles[first + i]; };
  double mean = 0.0;
  for (std::size_t i = 0; i < count; ++i) mean += tile(i).aspect / static_cast<double>(count);
  const auto share = [&](std::size_t i) { return std::max(tile(i).aspect, kLeastShare * mean); };
  for (std::size_t i = 0; i < count; ++i) shares += share(i);
  for (std::size_t i = 0; i < count; ++i) {
    row.widths.push_back(room * share(i) / shares);
    row.natural = std::max(row.natural, row.widths.back() / tile(i).aspect);
    row.stretches |= !tile(i).keeps_aspect;
  }
  return row;
}

/// Gives each row its height: all that its pictures ask for where that fits.
void share_height(std::vector<Row>& rows, double room) {
  double natural = 0.0;
  double stretching = 0.0;
  for (const Row& row : rows) {
    natural += row.natural;
    if (row.stretches) stretching += row.natural;
  }
  const double left = room - natural;
  for (Row& row : rows) {
    if (left < 0.0) {
      row.height = row.natural * room / natural;
    } else if (stretching > 0.0) {
      row.height = row.natural + (row.stretches ? left * row.natural / stretching : 0.0);
    } else {
      row.height = row.natural + left * row.natural / natural;
    }
    row.height = std::max(1.0, row.height);
  }
}

/// How large a picture looks: the side of a square of its area.
double size_of(const TileNeed& tile, double width, double height) {
  if (tile.keeps_aspect) {
    const double seen = std::min(width, height * tile.aspect);
    return std::sqrt(seen * seen / tile.aspect);
  }
  return std::sqrt(std::min(width, kStretch * height * tile.aspect) *
                   std::min(height, kStretch * width / tile.aspect));
}

TileArrangement placed(const std::vector<Row>& rows, std::span<const TileNeed> tiles, double width,
                       double height, double gap, double header) {
  TileArrangement out;
  double y = 0.0;
  double used = 0.0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const Row& row = rows[r];
    const double bottom = r + 1 == rows.size() ? height : std::floor(y + header + row.height);
    double x = 0.0;
    for (std::size_t i = 0; i < row.count; ++i) {
      const double right = i + 1 == row.count ? width : std::floor(x + row.widths[i]);
      out.places.push_back(
          {x, y, std::max(1.0, std::floor(right - x)), std::max(1.0, std::floor(bottom - y))});
      x = std::floor(right + gap);
    }
    used += header + (row.stretches ? row.height : std::min(row.height, row.natural)) +
            (r > 0 ? gap : 0.0);
    y = std::floor(bottom + gap);
  }
  const bool only_maps =
      std::all_of(tiles.begin(), tiles.end(), [](const TileNeed& t) { return t.keeps_aspect; });
  out.height_used = only_maps ? std::min(height, std::ceil(used)) : height;
  return out;
}

}  // namespace

TileArrangement arrange_tiles(std::span<const TileNeed> tiles, double width, double height,
                              double gap, double header) {
  const std::size_t count = tiles.size();
  TileArrangement best;
  double largest = -1.0;
  // Bit i of `breaks`: a new row begins after tile i. The fewest rows first: of equals the one side
  // by side.
  for (unsigned breaks = 0; count > 0 && breaks < (1U << (count - 1)); ++breaks) {
    std::vector<Row> rows;
    std::size_t first = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (i + 1 < count && ((breaks >> i) & 1U) == 0) continue;
      rows.push_back(make_row(tiles, first, i + 1 - first, width, gap));
      first = i + 1;
    }
    const double gaps = gap * static_cast<double>(rows.size() - 1);
    share_height(rows, std::max(1.0, height - gaps - header * static_cast<double>(rows.size())));
    double size = 0.0;
    for (const Row& row : rows) {
      for (std::size_t i = 0; i < row.count; ++i)
        size += size_of(tiles[row.first + i], row.widths[i], row.height);
    }
    if (size <= largest + 1e-9) continue;
    largest = size;
    best = placed(rows, tiles, width, height, gap, header);
  }
  return best;
}

}  // namespace kvloupe::window
