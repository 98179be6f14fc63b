#include "app/plot/pattern.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace kvloupe::figure {

namespace {
constexpr double line_width = 0.55;  // points
constexpr double dot_size = 1.1;
constexpr double least_side = 1.0;
}  // namespace

void pattern_lines(Pattern pattern, const Rect& rect, double spacing,
                   const std::function<void(Point from, Point to)>& line) {
  if (pattern == Pattern::level && rect.width > 0.0) {
    for (double row = std::ceil(rect.y / spacing); row * spacing < rect.bottom(); ++row) {
      line({rect.x, row * spacing}, {rect.right(), row * spacing});
    }
  }
  if (pattern != Pattern::rising && pattern != Pattern::falling) return;
  // A rising line is x + y = c (y grows downwards), a falling one x − y = c.
  const bool rising = pattern == Pattern::rising;
  const double pitch = spacing * std::numbers::sqrt2;
  const double low = rising ? rect.x + rect.y : rect.x - rect.bottom();
  const double high = rising ? rect.right() + rect.bottom() : rect.right() - rect.y;
  for (double k = std::ceil(low / pitch); k * pitch < high; ++k) {
    const double c = k * pitch;
    const double from = std::max(rect.x, rising ? c - rect.bottom() : c + rect.y);
    const double to = std::min(rect.right(), rising ? c - rect.y : c + rect.bottom());
    if (to - from <= 1e-9) continue;
    if (rising) {
      line({from, c - from}, {to, c - to});
    } else {
      line({from, from - c}, {to, to - c});
    }
  }
}

void pattern_dots(const Rect& rect, double spacing, const std::function<void(Point centre)>& dot) {
  // Every second row is moved by half of the space.
  for (double row = std::ceil(rect.y / spacing); row * spacing < rect.bottom(); ++row) {
    const double shift = std::fmod(std::abs(row), 2.0) == 1.0 ? 0.5 : 0.0;
    for (double k = std::ceil(rect.x / spacing - shift); (k + shift) * spacing < rect.right(); ++k)
      dot({(k + shift) * spacing, row * spacing});
  }
}

void PatternFill::cover(const Rect& rect) {
  if (pattern_ == Pattern::dots) {
    pattern_dots(rect, kPatternSpacing, [&](Point centre) { dots_.push_back(centre); });
  } else if (std::min(rect.width, rect.height) >= least_side) {
    pattern_lines(pattern_, rect, kPatternSpacing,
                  [&](Point from, Point to) { lines_.move(from).line(to); });
  }
}

void PatternFill::add_to(Scene& scene) {
  if (!lines_.verbs.empty()) {
    lines_.stroke = Stroke{colour_, line_width};
    scene.add(std::move(lines_));
    lines_ = {};
  }
  if (!dots_.empty())
    scene.add(Markers{MarkerShape::circle, dot_size, colour_, std::nullopt, std::move(dots_)});
  dots_.clear();
}

}  // namespace kvloupe::figure
