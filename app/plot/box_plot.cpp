#include "app/plot/box_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kvloupe::figure {

namespace {

std::vector<double> sorted_finite(std::span<const double> values) {
  std::vector<double> sorted;
  for (const double value : values) {
    if (std::isfinite(value)) sorted.push_back(value);
  }
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double quantile_of_sorted(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

}  // namespace

double quantile(std::span<const double> values, double share) {
  return quantile_of_sorted(sorted_finite(values), share);
}

BoxNumbers box_numbers(std::span<const double> values) {
  BoxNumbers box;
  const std::vector<double> sorted = sorted_finite(values);
  box.count = sorted.size();
  if (sorted.empty()) return box;
  box.first_quartile = quantile_of_sorted(sorted, 0.25);
  box.median = quantile_of_sorted(sorted, 0.5);
  box.third_quartile = quantile_of_sorted(sorted, 0.75);
  const double reach = 1.5 * (box.third_quartile - box.first_quartile);
  box.low = box.first_quartile;
  box.high = box.third_quartile;
  for (const double value : sorted) {
    if (value < box.first_quartile - reach || value > box.third_quartile + reach) {
      box.outliers.push_back(value);
    } else {
      box.low = std::min(box.low, value);
      box.high = std::max(box.high, value);
    }
  }
  return box;
}

void add_box(Scene& scene, const Style& style, const Axes& axes, double cell,
             const BoxNumbers& numbers, const SeriesLook& look, bool upright) {
  if (numbers.count == 0) return;
  const Axis& axis = upright ? axes.y : axes.x;
  const auto shown = [&](double value) {  // kept on the plot; a log axis has no 0
    const double low = std::min(axis.first, axis.last);
    const double high = std::max(axis.first, axis.last);
    return std::clamp(value, low, high);
  };
  const auto at = [&](double beside, double value) {
    return upright ? axes.to_page(cell + beside, shown(value))
                   : axes.to_page(shown(value), cell + beside);
  };
  Path whiskers;
  whiskers.move(at(0.5, numbers.low)).line(at(0.5, numbers.first_quartile));
  whiskers.move(at(0.5, numbers.third_quartile)).line(at(0.5, numbers.high));
  whiskers.stroke = Stroke{look.colour, 0.8, {}, Cap::butt};
  scene.add(std::move(whiskers));
  Path box;
  box.move(at(0.3, numbers.first_quartile))
      .line(at(0.7, numbers.first_quartile))
      .line(at(0.7, numbers.third_quartile))
      .line(at(0.3, numbers.third_quartile))
      .close();
  box.fill = style.colours.paper;
  box.stroke = Stroke{look.colour, 0.8, {}, Cap::butt};
  scene.add(std::move(box));
  Path median;
  median.move(at(0.3, numbers.median)).line(at(0.7, numbers.median));
  median.stroke = Stroke{look.colour, 1.8, {}, Cap::butt};
  scene.add(std::move(median));
  std::vector<Point> outliers;
  for (const double value : numbers.outliers) {
    if (shown(value) == value) outliers.push_back(at(0.5, value));
  }
  if (!outliers.empty()) {
    SeriesLook open = look;
    open.filled = false;
    scene.add(series_marks(style, open, 2.4, std::move(outliers)));
  }
}

}  // namespace kvloupe::figure
