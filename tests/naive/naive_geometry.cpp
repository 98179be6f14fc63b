#include "tests/naive/naive_geometry.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::naive {

Vectors vectors_of(const Matrix& rows) {
  Vectors result;
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    result.emplace_back();
    for (Eigen::Index c = 0; c < rows.cols(); ++c) {
      result.back().push_back(static_cast<double>(rows(i, c)));
    }
  }
  return result;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

double cosine(const Vector& a, const Vector& b) {
  const double squares = dot(a, a) * dot(b, b);
  return squares == 0.0 ? 0.0 : dot(a, b) / std::sqrt(squares);
}

Vector mean(const Vectors& rows) {
  Vector result(rows.front().size(), 0.0);
  for (const Vector& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      result[c] += row[c] / static_cast<double>(rows.size());
    }
  }
  return result;
}

Vector mean_direction(const Vectors& rows) {
  Vectors scaled = rows;
  for (Vector& row : scaled) {
    const double norm = std::sqrt(dot(row, row));
    for (double& x : row) x = norm == 0.0 ? 0.0 : x / norm;
  }
  return mean(scaled);
}

double mean_cosine_to_others(const Vectors& rows, std::size_t i) {
  double sum = 0.0;
  for (std::size_t j = 0; j < rows.size(); ++j) {
    if (j != i) sum += cosine(rows[i], rows[j]);
  }
  return sum / static_cast<double>(rows.size() - 1);
}

double rank_of(const Vector& values, std::size_t i) {
  double rank = 1.0;
  for (std::size_t j = 0; j < values.size(); ++j) {
    if (values[j] < values[i]) rank += 1.0;
    if (values[j] == values[i] && j != i) rank += 0.5;
  }
  return rank;
}

double correlation(const Vector& a, const Vector& b) {
  const auto n = static_cast<double>(a.size());
  double a_mean = 0.0, b_mean = 0.0;
  for (const double x : a) a_mean += x / n;
  for (const double x : b) b_mean += x / n;
  double covariance = 0.0, a_variance = 0.0, b_variance = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    covariance += (a[i] - a_mean) * (b[i] - b_mean) / n;
    a_variance += (a[i] - a_mean) * (a[i] - a_mean) / n;
    b_variance += (b[i] - b_mean) * (b[i] - b_mean) / n;
  }
  return covariance / std::sqrt(a_variance) / std::sqrt(b_variance);
}

double objective(const Vectors& keys, const std::vector<int>& set) {
  double sum = 0.0;
  for (const int i : set) {
    for (const int j : set) {
      sum += cosine(keys[i], keys[j]);
    }
  }
  return sum;
}

Alignment attention_alignment(const Vector& query, Vectors keys, double scale, std::size_t star) {
  // Keys and query as the theorem wants them: ‖q‖ = 1.
  const double length = std::sqrt(dot(query, query));
  Vector q = query;
  for (double& x : q) x /= length;
  for (Vector& key : keys) {
    for (double& x : key) x *= length * scale;
  }
  double all = 0.0, mean_of_others = 0.0, limit = 1.0;
  const auto n = static_cast<double>(keys.size() - 1);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    all += std::exp(dot(keys[i], q));
    limit = std::max(limit, dot(keys[i], keys[i]));
    if (i != star) mean_of_others += dot(keys[i], q) / n;
  }
  const double w = std::exp(dot(keys[star], q)) / all;
  const double norm = std::sqrt(dot(keys[star], keys[star]));
  return {w, dot(keys[star], q) / norm,
          (std::log(n / (n + 1.0)) - std::log(1.0 - w)) / (2.0 * limit) - 1.0,
          (std::log(w / (1.0 - w)) + std::log(n) + mean_of_others) / norm};
}

namespace {
/// A number that counts what is done with it.
struct Counted {
  double value = 0.0;
  Operations* count = nullptr;
};
Counted operator+(Counted a, Counted b) {
  ++a.count->additions;
  return {a.value + b.value, a.count};
}
Counted operator*(Counted a, Counted b) {
  ++a.count->multiplications;
  return {a.value * b.value, a.count};
}
Counted operator/(Counted a, Counted b) {
  ++a.count->divisions;
  return {a.value / b.value, a.count};
}
Counted root(Counted a) {
  ++a.count->roots;
  return {std::sqrt(a.value), a.count};
}
Counted product(const std::vector<Counted>& a, const std::vector<Counted>& b) {
  Counted sum = a[0] * b[0];
  for (std::size_t c = 1; c < a.size(); ++c) sum = sum + a[c] * b[c];
  return sum;
}
}  // namespace

Operations count_keydiff(const Vectors& keys) {
  Operations count;
  const std::size_t n = keys.size(), d = keys.front().size();
  std::vector<std::vector<Counted>> k(n), unit(n);
  std::vector<Counted> norms, anchor;
  for (std::size_t i = 0; i < n; ++i) {
    for (const double x : keys[i]) k[i].push_back({x, &count});
    norms.push_back(root(product(k[i], k[i])));
    const Counted inverse = Counted{1.0, &count} / norms[i];
    for (std::size_t c = 0; c < d; ++c) unit[i].push_back(k[i][c] * inverse);
  }
  for (std::size_t c = 0; c < d; ++c) {
    Counted sum = unit[0][c];
    for (std::size_t i = 1; i < n; ++i) sum = sum + unit[i][c];
    anchor.push_back(sum);
  }
  // The paper counts one division for 1/n, and not the multiplications by it.
  (void)(Counted{1.0, &count} / Counted{static_cast<double>(n), &count});
  const Counted anchor_norm = root(product(anchor, anchor));
  for (std::size_t i = 0; i < n; ++i) {
    (void)(product(anchor, k[i]) / (norms[i] * anchor_norm));
  }
  return count;
}

double cosine_before_rope(const Vectors& keys, const ModelInfo& model, std::size_t m, std::size_t n,
                          int j) {
  const int half = model.head_dim / 2;
  const bool halves = model.rope_pairing == RopePairing::half;
  const auto a = static_cast<std::size_t>(halves ? j : 2 * j);
  const auto b = static_cast<std::size_t>(halves ? j + half : 2 * j + 1);
  const double theta = std::pow(model.rope_theta, -2.0 * j / model.head_dim);
  const double angle_m = std::atan2(keys[m][b], keys[m][a]) - static_cast<double>(m) * theta;
  const double angle_n = std::atan2(keys[n][b], keys[n][a]) - static_cast<double>(n) * theta;
  return std::cos(angle_m - angle_n);
}

}  // namespace kvloupe::naive
