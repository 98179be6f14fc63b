#include "tests/naive/naive_later.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::naive {

std::vector<double> rope_angles(const ModelInfo& model) {
  std::vector<double> angles;
  for (int j = 0; j < model.head_dim / 2; ++j) {
    angles.push_back(std::pow(model.rope_theta, -2.0 * j / model.head_dim));
  }
  return angles;
}

std::vector<double> rotated(const std::vector<double>& x, double position, const ModelInfo& model) {
  const std::vector<double> angles = rope_angles(model);
  std::vector<double> result = x;
  for (std::size_t j = 0; j < angles.size(); ++j) {
    const bool half = model.rope_pairing == RopePairing::half;
    const std::size_t a = half ? j : 2 * j;
    const std::size_t b = half ? j + angles.size() : 2 * j + 1;
    const double angle = position * angles[j];
    result[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
    result[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
  }
  return result;
}

namespace {
std::vector<double> row(const Matrix& rows, int i) {
  std::vector<double> result;
  for (Eigen::Index c = 0; c < rows.cols(); ++c) result.push_back(static_cast<double>(rows(i, c)));
  return result;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

std::vector<double> mean_before_rope(const Matrix& rows, const ModelInfo& model) {
  std::vector<double> mean(static_cast<std::size_t>(rows.cols()), 0.0);
  const int count = static_cast<int>(rows.rows());
  for (int t = 0; t < count; ++t) {
    const std::vector<double> one = rotated(row(rows, t), -t, model);
    for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += one[c] / count;
  }
  return mean;
}
}  // namespace

ByDistance by_distance(const Matrix& queries, const Matrix& keys, const ModelInfo& model,
                       double scale, int window,
                       const std::vector<std::vector<double>>& attention) {
  const int count = static_cast<int>(queries.rows());
  const int distances = window > 0 ? std::min(window, count) : count;
  const std::vector<double> query = mean_before_rope(queries, model);
  const std::vector<double> key = mean_before_rope(keys, model);
  ByDistance result;
  for (int distance = 0; distance < distances; ++distance) {
    result.kernel.push_back(scale * dot(rotated(query, distance, model), key));
  }
  for (int distance = 0; distance < distances; ++distance) {
    double logits = 0.0, paid = 0.0, expected = 0.0;
    for (int q = distance; q < count; ++q) {
      logits += scale * dot(row(queries, q), row(keys, q - distance));
      paid += attention[q][q - distance];
      double sum = 0.0;
      for (int other = 0; other <= q && other < distances; ++other) {
        sum += std::exp(result.kernel[other]);
      }
      expected += std::exp(result.kernel[distance]) / sum;
    }
    result.logit.push_back(logits / (count - distance));
    result.attention.push_back(paid / (count - distance));
    result.kernel_attention.push_back(expected / (count - distance));
  }
  return result;
}

double later_attention(const std::vector<std::vector<double>>& attention, int token, int first) {
  double sum = 0.0;
  for (std::size_t q = static_cast<std::size_t>(first); q < attention.size(); ++q) {
    sum += attention[q][token];
  }
  return sum / static_cast<double>(attention.size() - static_cast<std::size_t>(first));
}

}  // namespace kvloupe::naive
