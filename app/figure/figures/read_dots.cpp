#include "app/figure/figures/read_dots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::figure {

namespace {
constexpr double kLeastSeen = 0.8;  // points
constexpr double kShownReads[] = {0.05, 0.2, 0.5};
constexpr double kLegendMiddle = 8.0;  // from the top of the page
}  // namespace

double read_dot_size(double read, double largest) {
  if (!(read >= kLeastRead)) return 0.0;  // NaN: nobody asked
  const double size = largest * std::sqrt(std::min(read, 1.0));
  return size < kLeastSeen ? 0.0 : size;
}

void add_read_legend(Scene& scene, const Style& style, double x, double largest) {
  const double base = kLegendMiddle + 2.5;
  Text name = make_text(style, "attention read", {x, base}, style.small);
  if (name.bounds().right() > scene.width) return;
  x += name.width + 8.0;
  scene.add(std::move(name));
  for (const double read : kShownReads) {
    Markers dot{.size = read_dot_size(read, largest)};
    if (dot.size == 0.0) continue;
    dot.fill = style.colours.ink;
    dot.points = {{x + dot.size / 2, kLegendMiddle}};
    Text label = make_text(style, fmt::format("{}", read), {x + dot.size + 3.0, base}, style.small);
    if (label.bounds().right() > scene.width) return;
    x = label.bounds().right() + 8.0;
    scene.add(std::move(dot));
    scene.add(std::move(label));
  }
}

}  // namespace kvloupe::figure
