#include "analysis/policy/kit/merging_weights.h"

#include <cmath>
#include <numbers>
#include <numeric>

namespace kvloupe {

namespace {
double gaussian(double distance, double sigma) {
  return distance == 0.0 ? 1.0 : std::exp(-distance * distance / (2.0 * sigma * sigma));
}

double gaussian_sum(std::span<const double> distances, double sigma) {
  double sum = 0.0;
  for (const double distance : distances) sum += gaussian(distance, sigma);
  return sum;
}
}  // namespace

std::vector<double> gaussian_weights(std::span<const double> distances, double sigma) {
  const double sum = gaussian_sum(distances, sigma);
  std::vector<double> weights;
  for (const double distance : distances) weights.push_back(gaussian(distance, sigma) / sum);
  return weights;
}

double sigma_of_equation_6(std::span<const double> distances) {
  constexpr int kMostRounds = 10000;
  const double scale = 1.0 / (std::numbers::sqrt2 * static_cast<double>(distances.size()));
  double sigma = 1.0 / std::numbers::sqrt2;
  for (int round = 0; round < kMostRounds; ++round) {
    const double next = scale * gaussian_sum(distances, sigma);
    if (sigma - next <= 1e-12 * sigma) break;
    sigma = next;
  }
  return sigma;
}

double sigma_of_distances(std::span<const double> distances) {
  return std::accumulate(distances.begin(), distances.end(), 0.0) /
         (std::numbers::sqrt2 * static_cast<double>(distances.size()));
}

}  // namespace kvloupe
