#include "app/plot/ridge_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/metric/norms.h"

namespace kvloupe::figure {

namespace {

constexpr int ridge_points = 160;
constexpr double ridge_height = 0.88;  // of a cell

/// Silverman's rule, at least one histogram bin.
double bandwidth(std::span<const float> inside, double bin) {
  const auto count = static_cast<double>(inside.size());
  double sum = 0.0, squares = 0.0;
  for (const float value : inside) sum += static_cast<double>(value);
  for (const float value : inside) {
    const double away = static_cast<double>(value) - sum / count;
    squares += away * away;
  }
  std::vector<float> sorted(inside.begin(), inside.end());
  std::sort(sorted.begin(), sorted.end());
  const double quartiles =
      static_cast<double>(sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]);
  double spread = std::sqrt(squares / count);
  if (quartiles > 0.0) spread = std::min(spread, quartiles / 1.34);
  return std::max(0.9 * spread * std::pow(count, -0.2), bin);
}

}  // namespace

std::vector<double> density(std::span<const float> values, double low, double high, int points) {
  std::vector<double> counts(static_cast<std::size_t>(points), 0.0);
  std::vector<float> inside;
  const double bin = (high - low) / points;
  for (const float value : values) {
    const auto v = static_cast<double>(value);
    if (!std::isfinite(v) || v < low || v > high) continue;
    inside.push_back(value);
    counts[std::min(static_cast<std::size_t>((v - low) / bin), counts.size() - 1)] += 1.0;
  }
  std::vector<double> result(counts.size(), 0.0);
  if (inside.empty()) return result;
  const double width = bandwidth(inside, bin) / bin;  // in bins
  const int reach = std::max(1, static_cast<int>(std::ceil(4.0 * width)));
  for (int i = 0; i < points; ++i) {
    const double count = counts[static_cast<std::size_t>(i)];
    if (count == 0.0) continue;
    for (int j = std::max(0, i - reach); j <= std::min(points - 1, i + reach); ++j) {
      const double away = (j - i) / width;
      result[static_cast<std::size_t>(j)] += count * std::exp(-0.5 * away * away);
    }
  }
  const double most = *std::max_element(result.begin(), result.end());
  for (double& one : result) one /= most;
  return result;
}

void add_ridge(Scene& scene, const Style& style, const Axes& axes, double cell,
               std::span<const float> values, bool chosen) {
  const double low = std::min(axes.x.first, axes.x.last);
  const double high = std::max(axes.x.first, axes.x.last);
  const std::vector<double> heights = density(values, low, high, ridge_points);
  const auto at = [&](double x, double height) {
    return axes.to_page(x, cell + 1.0 - ridge_height * height);
  };
  const double bin = (high - low) / ridge_points;
  const auto shown = [&](std::size_t i) { return heights[i] > 0.002; };
  Path area, line;
  std::size_t first = 0, last = heights.size();
  while (first < heights.size() && !shown(first)) ++first;
  while (last > first && !shown(last - 1)) --last;
  if (first == last) return;
  const double from = low + bin * static_cast<double>(first),
               to = low + bin * static_cast<double>(last);
  area.move(at(from, 0.0));
  for (std::size_t i = first; i < last; ++i) {
    const Point p = at(low + bin * (static_cast<double>(i) + 0.5), heights[i]);
    area.line(p);
    if (i == first) {
      line.move(p);
    } else {
      line.line(p);
    }
  }
  area.line(at(to, 0.0)).close();
  const Colour ink = chosen ? style.colours.selection : style.colours.both;
  area.fill = ink.with_alpha(0.32);
  line.stroke = Stroke{ink, chosen ? 1.2 : 0.6, {}, Cap::butt};
  scene.add(std::move(area));
  scene.add(std::move(line));
  const auto middle = static_cast<double>(median(values));
  if (!(middle >= low && middle <= high)) return;
  const auto place = std::min(static_cast<std::size_t>((middle - low) / bin), heights.size() - 1);
  scene.add(make_line(at(middle, 0.0), at(middle, std::max(0.3, heights[place])), style.colours.ink,
                      0.9));
}

}  // namespace kvloupe::figure
