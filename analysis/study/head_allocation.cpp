#include "analysis/study/head_allocation.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

namespace kvloupe {

double LossCurve::at(double number) const {
  const auto next = std::upper_bound(entries.begin(), entries.end(), number);
  if (next == entries.begin()) return losses.front();
  if (next == entries.end()) return losses.back();
  const auto right = static_cast<std::size_t>(next - entries.begin());
  const double part = (number - entries[right - 1]) / (entries[right] - entries[right - 1]);
  return losses[right - 1] + part * (losses[right] - losses[right - 1]);
}

LossCurve convex_curve(const LossCurve& curve) {
  std::vector<std::size_t> hull;
  for (std::size_t i = 0; i < curve.entries.size(); ++i) {
    // Whether the hull's last point lies on or above the line from the point before it to point i.
    const auto above = [&] {
      const std::size_t a = hull[hull.size() - 2], b = hull.back();
      return (curve.losses[b] - curve.losses[a]) * (curve.entries[i] - curve.entries[a]) >=
             (curve.losses[i] - curve.losses[a]) * (curve.entries[b] - curve.entries[a]);
    };
    while (hull.size() > 1 && above()) hull.pop_back();
    hull.push_back(i);
  }
  LossCurve corners;
  for (const std::size_t i : hull) {
    corners.entries.push_back(curve.entries[i]);
    corners.losses.push_back(corners.losses.empty()
                                 ? curve.losses[i]
                                 : std::min(corners.losses.back(), curve.losses[i]));
  }
  LossCurve result{curve.entries, {}};
  for (const double number : curve.entries) result.losses.push_back(corners.at(number));
  return result;
}

std::vector<int> share_steps(std::span<const std::vector<double>> losses, long steps) {
  std::vector<int> given(losses.size(), 0);
  using Gain = std::tuple<double, int, int>;  // lowered loss, −steps, −head: the largest first
  std::priority_queue<Gain> gains;
  const auto offer = [&](std::size_t head) {
    const std::vector<double>& own = losses[head];
    const auto next = static_cast<std::size_t>(given[head]) + 1;
    if (next < own.size())
      gains.emplace(own[next - 1] - own[next], -given[head], -static_cast<int>(head));
  };
  for (std::size_t head = 0; head < losses.size(); ++head) offer(head);
  for (; steps > 0 && !gains.empty(); --steps) {
    const auto head = static_cast<std::size_t>(-std::get<2>(gains.top()));
    gains.pop();
    ++given[head];
    offer(head);
  }
  return given;
}

std::vector<double> share_entries(std::span<const LossCurve> curves, double mean, double least,
                                  double step) {
  // A step that divides mean − least, so that the sum is exact.
  const double per_head = std::max(1.0, std::ceil((mean - least) / step - 1e-9));
  step = (mean - least) / per_head;
  std::vector<std::vector<double>> losses;
  for (const LossCurve& curve : curves) {
    const auto most = static_cast<long>(std::floor((curve.entries.back() - least) / step + 1e-9));
    std::vector<double> own;
    for (long k = 0; k <= most; ++k) own.push_back(curve.at(least + static_cast<double>(k) * step));
    losses.push_back(std::move(own));
  }
  std::vector<double> entries;
  for (const int steps :
       share_steps(losses, static_cast<long>(per_head) * static_cast<long>(curves.size())))
    entries.push_back(least + steps * step);
  return entries;
}

}  // namespace kvloupe
