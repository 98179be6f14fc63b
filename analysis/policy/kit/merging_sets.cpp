#include "analysis/policy/kit/merging_sets.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace kvloupe {

MergingSets::MergingSets(const MatrixView& keys, std::span<const int> candidates, Link link)
    : candidates_(candidates.begin(), candidates.end()),
      directions_(static_cast<Eigen::Index>(candidates.size()), keys.cols()),
      cosines_(candidates.size()),
      link_(link) {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    auto direction = directions_.row(static_cast<Eigen::Index>(i));
    direction = keys.row(candidates_[i]).cast<double>();
    const double norm = direction.norm();
    if (norm > 0.0) direction /= norm;
  }
}

double MergingSets::cosine(std::size_t later, std::size_t earlier) {
  std::vector<double>& known = cosines_[later];
  while (known.size() < later - earlier) {
    const std::size_t next = later - known.size() - 1;
    const double product = directions_.row(static_cast<Eigen::Index>(later))
                               .dot(directions_.row(static_cast<Eigen::Index>(next)));
    known.push_back(std::min(product, 1.0));
  }
  return known[later - earlier - 1];
}

template <typename Open, typename Join>
void MergingSets::scan(double epsilon, const Open& open, const Join& join) {
  std::size_t reference = 0;  // whom the next candidate is compared with
  for (std::size_t i = candidates_.size(); i-- > 0;) {
    if (i + 1 < candidates_.size() && cosine(reference, i) > epsilon) {
      join(candidates_[i]);
      if (link_ == Link::chain) reference = i;
    } else {
      open(candidates_[i]);
      reference = i;
    }
  }
}

std::vector<std::vector<int>> MergingSets::at(double epsilon) {
  std::vector<std::vector<int>> sets;
  scan(
      epsilon, [&](int row) { sets.push_back({row}); },
      [&](int row) { sets.back().push_back(row); });
  for (std::vector<int>& set : sets) std::reverse(set.begin(), set.end());
  return sets;
}

std::size_t MergingSets::count(double epsilon) {
  std::size_t sets = 0;
  scan(
      epsilon, [&](int) { ++sets; }, [](int) {});
  return sets;
}

double MergingSets::threshold_for(std::size_t most) {
  double enough = -2.0;  // below every cosine
  double above = 1.0;    // no cosine is above
  if (count(above) <= most) return above;
  while (above - enough > 1e-12) {
    const double middle = enough + (above - enough) / 2.0;
    (count(middle) <= most ? enough : above) = middle;
  }
  return enough;
}

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
