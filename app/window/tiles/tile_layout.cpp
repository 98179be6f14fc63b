#include "app/window/tiles/tile_layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::window {

namespace {

constexpr double kLeastShare = 0.6;  // of an equal share of a row's width
constexpr double kStretch = 1.6;     // a picture stretched further than that gains nothing

struct Row {
  std::size_t first = 0;
  std::size_t count = 0;
  std::vector<double> widths;
  double natural = 0.0;  // height that its pictures ask for
  double least = 0.0;    // height below which they cannot be read
  double height = 0.0;   // of its pictures
  bool stretches = false;
};

/// Shares `room` in proportion to the weights, none below its floor where all floors have room.
std::vector<double> share_out(const std::vector<double>& weights, const std::vector<double>& floors,
                              double room) {
  const std::size_t count = weights.size();
  double all_floors = 0.0;
  for (const double floor : floors) all_floors += floor;
  std::vector<bool> at_floor(count, false);
  std::vector<double> parts(count);
  for (bool again = true; again;) {
    again = false;
    double left = room;
    double weight = 0.0;
    for (std::size_t i = 0; i < count; ++i)
      (at_floor[i] ? left -= floors[i] : weight += weights[i]);
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = at_floor[i] ? floors[i] : left * weights[i] / weight;
      // One at a time: another may have room again once the first has its floor.
      if (!again && !at_floor[i] && all_floors <= room && parts[i] < floors[i])
        again = at_floor[i] = true;
    }
  }
  return parts;
}

Row make_row(std::span<const TileNeed> tiles, std::size_t first, std::size_t count, double width,
             double gap) {
  Row row{first, count, {}, 0.0, 0.0, 0.0, false};
  const double room = std::max(1.0, width - gap * static_cast<double>(count - 1));
  const auto tile = [&](std::size_t i) -> const TileNeed& { return tiles[first + i]; };
  double mean = 0.0;
  for (std::size_t i = 0; i < count; ++i) mean += tile(i).aspect / static_cast<double>(count);
  const auto share = [&](std::size_t i) { return std::max(tile(i).aspect, kLeastShare * mean); };
  std::vector<double> shares, floors;
  for (std::size_t i = 0; i < count; ++i) {
    shares.push_back(share(i));
    floors.push_back(tile(i).least_width);
    row.least = std::max(row.least, tile(i).least_height);
  }
  row.widths = share_out(shares, floors, room);
  for (std::size_t i = 0; i < count; ++i) {
    row.natural = std::max(row.natural, row.widths[i] / tile(i).aspect);
    row.stretches |= !tile(i).keeps_aspect;
  }
  row.natural = std::max(row.natural, row.least);
  return row;
}

/// Shares the width of a row as chosen by hand, if each of its tiles has a chosen share.
void take_chosen_widths(Row& row, std::span<const TileNeed> tiles, double width, double gap) {
  const double room = std::max(1.0, width - gap * static_cast<double>(row.count - 1));
  std::vector<double> shares, floors;
  for (std::size_t i = 0; i < row.count; ++i) {
    shares.push_back(tiles[row.first + i].share);
    floors.push_back(tiles[row.first + i].least_width);
    if (shares.back() <= 0.0) return;
  }
  row.widths = share_out(shares, floors, room);
}

/// Gives each row its height: all that its pictures need, if that fits.
void share_height(std::vector<Row>& rows, double room) {
  double natural = 0.0;
  double stretching = 0.0;
  for (const Row& row : rows) {
    natural += row.natural;
    if (row.stretches) stretching += row.natural;
  }
  const double left = room - natural;
  if (left < 0.0) {
    std::vector<double> weights, floors;
    for (const Row& row : rows) {
      weights.push_back(row.natural);
      floors.push_back(row.least);
    }
    const std::vector<double> heights = share_out(weights, floors, room);
    for (std::size_t r = 0; r < rows.size(); ++r) rows[r].height = std::max(1.0, heights[r]);
    return;
  }
  for (Row& row : rows) {
    if (stretching > 0.0) {
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
      // A share of a whole number of pixels is just that, or a hair less.
      const double right = i + 1 == row.count ? width : std::floor(x + row.widths[i] + 1e-6);
      out.places.push_back(
          {x, y, std::max(1.0, std::floor(right - x)), std::max(1.0, std::floor(bottom - y))});
      x = std::floor(right + gap);
    }
    used += header + (row.stretches ? row.height : std::min(row.height, row.natural)) +
            (r > 0 ? gap : 0.0);
    y = std::floor(bottom + gap);
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < rows[r].count; ++i) {
      const TileNeed& need = tiles[rows[r].first + i];
      const figure::Rect& place = out.places[rows[r].first + i];
      out.legible &= place.width >= std::floor(need.least_width) &&
                     place.height - header >= std::floor(need.least_height);
    }
  }
  const bool only_maps =
      std::all_of(tiles.begin(), tiles.end(), [](const TileNeed& t) { return t.keeps_aspect; });
  out.height_used = only_maps ? std::min(height, std::ceil(used)) : height;
  return out;
}

}  // namespace

TileArrangement arrange_tiles(std::span<const TileNeed> tiles, double width, double height,
                              double gap, double header, std::optional<unsigned> rows_before) {
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
    const bool stays = rows_before == breaks;
    double size = 0.0;
    for (const Row& row : rows) {
      for (std::size_t i = 0; i < row.count; ++i)
        size += size_of(tiles[row.first + i], row.widths[i], row.height);
    }
    for (Row& row : rows) take_chosen_widths(row, tiles, width, gap);
    TileArrangement next = placed(rows, tiles, width, height, gap, header);
    next.breaks = breaks;
    if (stays && next.legible) return next;
    const bool better = best.places.empty() || (next.legible && !best.legible) ||
                        (next.legible == best.legible && size > largest + 1e-9);
    if (!better) continue;
    largest = size;
    best = std::move(next);
  }
  return best;
}

TileNeed with_least_room(TileNeed need, double aspect, double unit) {
  constexpr double kWide = 220.0;  // of a picture as high as wide, and a little more
  constexpr double kHigh = 300.0;
  need.least_width = unit * std::clamp(kWide * aspect, 300.0, 380.0);
  need.least_height = unit * std::clamp(kHigh / std::max(aspect, 1e-3), 200.0, 230.0);
  return need;
}

namespace {

figure::Rect centre_of(Panels wanted, Panels open, const StageSizes& sizes, double width,
                       double height) {
  const auto taken = [](bool is_wanted, bool is_open, double panel, double rail) {
    return is_open ? panel : is_wanted ? rail : 0.0;
  };
  const double left = taken(wanted.left, open.left, sizes.left, sizes.side_rail);
  const double right = taken(wanted.right, open.right, sizes.right, sizes.side_rail);
  const double bottom = taken(wanted.bottom, open.bottom, sizes.bottom, sizes.bottom_rail);
  return {left, 0.0, std::max(1.0, width - left - right), std::max(1.0, height - bottom)};
}

/// Every turn of `count` tiles can be read in that centre.
bool all_turns_legible(std::span<const TileNeed> tiles, std::size_t count, const StageSizes& sizes,
                       const figure::Rect& centre) {
  const double tabs = count < tiles.size() ? sizes.tabs : 0.0;
  const double width = centre.width - 2 * sizes.margin;
  const double height = centre.height - sizes.below - tabs;
  for (std::size_t first = 0; first < tiles.size(); first += count) {
    const auto turn = tiles.subspan(first, std::min(count, tiles.size() - first));
    if (!arrange_tiles(turn, width, height, sizes.gap, sizes.header).legible) return false;
  }
  return true;
}

}  // namespace

StageLayout lay_out_stage(std::span<const TileNeed> tiles, std::size_t active, Panels wanted,
                          const StageSizes& sizes, double width, double height) {
  // Folded: the fewest first; the one below still shows the steps when folded; the right one holds
  // the controls of the policies.
  constexpr Panels kFolds[] = {{false, false, false}, {false, false, true}, {true, false, false},
                               {false, true, false},  {true, false, true},  {true, true, false},
                               {false, true, true},   {true, true, true}};
  StageLayout layout;
  const auto in_turns_of = [&](std::size_t count) {
    layout.first = count == 0 ? 0 : active / count * count;
    layout.count = std::min(count, tiles.size() - std::min(layout.first, tiles.size()));
  };
  for (std::size_t count = tiles.size(); count > 0; --count) {
    for (const Panels& folded : kFolds) {
      layout.open = {wanted.left && !folded.left, wanted.right && !folded.right,
                     wanted.bottom && !folded.bottom};
      layout.centre = centre_of(wanted, layout.open, sizes, width, height);
      if (!all_turns_legible(tiles, count, sizes, layout.centre)) continue;
      in_turns_of(count);
      return layout;
    }
  }
  layout.open = {};
  layout.centre = centre_of(wanted, layout.open, sizes, width, height);
  in_turns_of(tiles.empty() ? 0 : 1);
  return layout;
}

StageLayout lay_out_stage_with(std::span<const TileNeed> tiles, std::size_t active,
                               Panels wanted_panels, const StageSizes& least, StageSizes& wanted,
                               std::span<double StageSizes::*const> order, double width,
                               double height) {
  const auto layout_of = [&](const StageSizes& sizes) {
    return lay_out_stage(tiles, active, wanted_panels, sizes, width, height);
  };
  const StageLayout base = layout_of(least);
  const auto is_as_good = [&](const StageLayout& layout) {
    const auto has = [](bool now, bool before) { return now || !before; };
    return has(layout.open.left, base.open.left) && has(layout.open.right, base.open.right) &&
           has(layout.open.bottom, base.open.bottom) && layout.count >= base.count;
  };
  if (StageLayout layout = layout_of(wanted); is_as_good(layout)) return layout;
  StageSizes sizes = least;
  for (double StageSizes::*const panel : order) {
    double fits = least.*panel;
    for (double too_much = wanted.*panel + 1.0; too_much - fits > 1.0;) {
      sizes.*panel = std::floor((fits + too_much) / 2.0);
      (is_as_good(layout_of(sizes)) ? fits : too_much) = sizes.*panel;
    }
    sizes.*panel = fits;
  }
  wanted = sizes;
  return layout_of(sizes);
}

HeaderLayout lay_out_header(const HeaderNeed& need, double width) {
  HeaderLayout layout;
  double all = need.title + need.side + need.reset + need.dot;
  for (const double choice : need.choices) all += choice;
  const bool asks = need.side > 0.0 || need.reset > 0.0 || !need.choices.empty();
  layout.more = asks && all > width;
  double room = std::max(0.0, width - need.dot - (layout.more ? need.more : 0.0));
  layout.title = std::min(need.title, room);
  room -= layout.title;
  const auto takes = [&](double part) {
    if (part <= 0.0 || part > room) return false;
    room -= part;
    return true;
  };
  layout.side = takes(need.side);
  layout.reset = takes(need.reset);
  while (layout.choices < need.choices.size() && takes(need.choices[layout.choices]))
    ++layout.choices;
  return layout;
}

}  // namespace kvloupe::window
