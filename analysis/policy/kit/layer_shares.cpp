#include "analysis/policy/kit/layer_shares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace kvloupe {

namespace {
/// Shares of which each is at most `most`, with the same sum: the places cut off go to the others
/// in equal parts.
void spread_surplus(std::vector<double>& shares, double most) {
  for (std::size_t round = 0; round < shares.size(); ++round) {
    double surplus = 0.0;
    long open = 0;
    for (double& share : shares) {
      if (share > most) {
        surplus += share - most;
        share = most;
      } else if (share < most) {
        ++open;
      }
    }
    if (surplus <= 0.0 || open == 0) return;
    for (double& share : shares) {
      if (share < most) share += surplus / static_cast<double>(open);
    }
  }
}
}  // namespace

int layer_share(std::span<const double> weights, int layer, int budget, double base, int most) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (budget >= most || sum <= 0.0) return budget;
  const auto layers = static_cast<double>(weights.size());
  std::vector<double> shares;
  for (const double weight : weights) {
    shares.push_back(base + (budget - base) * layers * weight / sum);
  }
  spread_surplus(shares, most);

  std::vector<int> whole;
  std::vector<std::size_t> order;
  long left = static_cast<long>(budget) * static_cast<long>(weights.size());
  for (std::size_t i = 0; i < shares.size(); ++i) {
    // A share that differs from a whole number only by rounding is whole.
    const double near = std::round(shares[i]);
    if (std::abs(shares[i] - near) < 1e-9 * std::max(1.0, near)) shares[i] = near;
    whole.push_back(static_cast<int>(std::floor(shares[i])));
    left -= whole.back();
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return shares[a] - std::floor(shares[a]) > shares[b] - std::floor(shares[b]);
  });
  for (std::size_t i = 0; i < order.size() && left > 0; ++i) {
    if (whole[order[i]] >= most) continue;
    ++whole[order[i]];
    --left;
  }
  return std::max(whole[static_cast<std::size_t>(layer)], 1);
}

}  // namespace kvloupe
