#include "analysis/math/angle.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace kvloupe {

Eigen::RowVectorXd mean_row(const MatrixView& rows) {
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(rows.cols());
  for (Eigen::Index i = 0; i < rows.rows(); ++i) sum += rows.row(i).cast<double>();
  if (rows.rows() > 0) sum /= static_cast<double>(rows.rows());
  return sum;
}

Eigen::RowVectorXd mean_direction(const MatrixView& rows) {
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(rows.cols());
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const Eigen::RowVectorXd row = rows.row(i).cast<double>();
    const double norm = row.norm();
    if (norm > 0.0) sum += row / norm;
  }
  if (rows.rows() > 0) sum /= static_cast<double>(rows.rows());
  return sum;
}

double cosine(const Eigen::RowVectorXd& a, const Eigen::RowVectorXd& b) {
  const double norms = a.norm() * b.norm();
  return norms > 0.0 ? std::clamp(a.dot(b) / norms, -1.0, 1.0) : 0.0;
}

std::vector<double> cosines_to(const MatrixView& rows, const Eigen::RowVectorXd& direction) {
  std::vector<double> result(static_cast<std::size_t>(rows.rows()));
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    result[static_cast<std::size_t>(i)] = cosine(rows.row(i).cast<double>(), direction);
  }
  return result;
}

std::vector<double> angles_to(const MatrixView& rows, const Eigen::RowVectorXd& direction) {
  std::vector<double> result = cosines_to(rows, direction);
  for (double& value : result) value = std::acos(value) * 180.0 / std::numbers::pi;
  return result;
}

std::vector<double> mean_cosines_to_others(const MatrixView& rows) {
  const Eigen::Index n = rows.rows();
  const Eigen::RowVectorXd sum = mean_direction(rows) * static_cast<double>(n);
  std::vector<double> result(static_cast<std::size_t>(n), std::numeric_limits<double>::quiet_NaN());
  if (n < 2) return result;
  for (Eigen::Index i = 0; i < n; ++i) {
    const Eigen::RowVectorXd row = rows.row(i).cast<double>();
    const double norm = row.norm();
    result[static_cast<std::size_t>(i)] =
        norm > 0.0 ? (row.dot(sum) / norm - 1.0) / static_cast<double>(n - 1) : 0.0;
  }
  return result;
}

double distinct_rows_cosine(const MatrixView& rows, const Eigen::RowVectorXd& direction,
                            int count) {
  const std::vector<double> to_anchor = cosines_to(rows, mean_direction(rows));
  const auto taken = static_cast<std::size_t>(std::clamp<Eigen::Index>(count, 0, rows.rows()));
  if (taken == 0) return std::numeric_limits<double>::quiet_NaN();
  std::vector<Eigen::Index> order(to_anchor.size());
  std::iota(order.begin(), order.end(), 0);
  const auto more_distinct = [&](Eigen::Index a, Eigen::Index b) {
    const double first = to_anchor[static_cast<std::size_t>(a)];
    const double second = to_anchor[static_cast<std::size_t>(b)];
    return first != second ? first < second : a > b;
  };
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(taken - 1),
                   order.end(), more_distinct);
  // In row order, so that the sum does not depend on how the selection left them.
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(taken));
  double sum = 0.0;
  for (std::size_t i = 0; i < taken; ++i) {
    sum += cosine(rows.row(order[i]).cast<double>(), direction);
  }
  return sum / static_cast<double>(taken);
}

}  // namespace kvloupe
