#include "tests/figure/filled_paths.h"

#include <cmath>
#include <numbers>

namespace kvloupe::test {

using figure::Path;
using figure::Point;

namespace {

/// A rectangle drawn the other way round than Path::rect does.
void add_reversed(Path& path, const figure::Rect& r) {
  path.move({r.x, r.y})
      .line({r.x, r.bottom()})
      .line({r.right(), r.bottom()})
      .line({r.right(), r.y})
      .close();
}

void add_circle(Path& path, Point centre, double radius) {
  const double k = 0.5523 * radius;
  path.move({centre.x + radius, centre.y})
      .curve({centre.x + radius, centre.y + k}, {centre.x + k, centre.y + radius},
             {centre.x, centre.y + radius})
      .curve({centre.x - k, centre.y + radius}, {centre.x - radius, centre.y + k},
             {centre.x - radius, centre.y})
      .curve({centre.x - radius, centre.y - k}, {centre.x - k, centre.y - radius},
             {centre.x, centre.y - radius})
      .curve({centre.x + k, centre.y - radius}, {centre.x + radius, centre.y - k},
             {centre.x + radius, centre.y})
      .close();
}

}  // namespace

std::vector<FilledPath> filled_paths() {
  const figure::Colour solid{200, 80, 0, 255};
  const figure::Colour half{200, 80, 0, 128};
  std::vector<FilledPath> all;
  const auto add = [&](const char* name, Path path, figure::Colour colour) {
    path.fill = colour;
    all.push_back({name, std::move(path)});
  };
  Path hole;
  hole.rect({10, 10, 100, 90});
  add_reversed(hole, {30, 30, 40, 50});
  add("hole", hole, solid);
  add("translucent_hole", hole, half);
  Path same_way;
  same_way.rect({10, 10, 100, 90});
  same_way.rect({30, 30, 40, 50});
  add("inner_drawn_the_same_way_is_no_hole", same_way, half);
  Path overlapping;
  overlapping.rect({10, 20, 60, 60});
  overlapping.rect({40, 45, 65, 60});
  add("translucent_overlap_is_painted_once", overlapping, half);
  Path opposed;
  opposed.rect({10, 20, 60, 60});
  add_reversed(opposed, {40, 45, 65, 60});
  add("opposed_sub_paths_take_their_overlap_out", opposed, solid);
  Path star;
  for (int i = 0; i < 5; ++i) {
    const double angle = i * 4 * std::numbers::pi / 5;
    const Point p{60 + 50 * std::sin(angle), 60 - 50 * std::cos(angle)};
    i == 0 ? star.move(p) : star.line(p);
  }
  star.close();
  add("star", star, half);
  Path rings;
  add_circle(rings, {50, 55}, 40);
  add_circle(rings, {75, 65}, 30);
  add_reversed(rings, {45, 40, 30, 45});
  add("curves_and_a_hole_in_some", rings, half);
  Path open;  // not closed: filled as if it were
  open.move({10, 110}).line({30, 20}).line({60, 90}).line({90, 10}).line({110, 110});
  open.rect({20, 60, 80, 20});
  add("open_zigzag_and_a_bar", open, half);
  Path crossed;  // a band whose limits cross
  crossed.move({10, 30}).line({110, 90}).line({110, 30}).line({10, 90}).close();
  add("bow_tie", crossed, solid);
  return all;
}

}  // namespace kvloupe::test
