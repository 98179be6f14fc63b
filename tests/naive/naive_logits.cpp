#include "tests/naive/naive_logits.h"

#include <cmath>
#include <cstddef>

namespace kvloupe::naive {

double LogitOf::operator()(const std::vector<double>& x) const {
  const auto size = static_cast<double>(x.size());
  double mean = 0.0;
  if (centred) {
    for (const double one : x) mean += one / size;
  }
  double square = epsilon;
  for (const double one : x) square += (one - mean) * (one - mean) / size;
  double logit = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    logit += row[i] * (weight[i] * (x[i] - mean) / std::sqrt(square) + bias[i]);
  }
  return logit;
}

double LogitOf::change(const std::vector<double>& x, const std::vector<double>& delta) const {
  constexpr double kStep = 1e-5;
  std::vector<double> more = x, less = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    more[i] += kStep * delta[i];
    less[i] -= kStep * delta[i];
  }
  return ((*this)(more) - (*this)(less)) / (2.0 * kStep);
}

}  // namespace kvloupe::naive
