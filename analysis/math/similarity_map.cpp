#include "analysis/math/similarity_map.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace kvloupe {

SimilarityMap::SimilarityMap(const MatrixView& rows) : sums_(rows.rows() + 1, rows.cols()) {
  sums_.row(0).setZero();
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const double norm = rows.row(i).cast<double>().norm();
    const double inverse = norm > 0.0 ? 1.0 / norm : 0.0;
    sums_.row(i + 1) = sums_.row(i) + rows.row(i).cast<double>() * inverse;
  }
}

Matrix SimilarityMap::means(double first, double end, int pixels) const {
  Matrix result(pixels, sums_.cols());
  const auto sum_up_to = [&](double at) -> Eigen::RowVectorXd {
    const Eigen::Index whole =
        std::min(static_cast<Eigen::Index>(std::floor(at)), sums_.rows() - 1);
    const double part = at - static_cast<double>(whole);
    if (part <= 0.0 || whole + 1 >= sums_.rows()) return sums_.row(whole);
    return sums_.row(whole) * (1.0 - part) + sums_.row(whole + 1) * part;
  };
  const double step = (end - first) / pixels;
  Eigen::RowVectorXd below = sum_up_to(first);
  for (int i = 0; i < pixels; ++i) {
    Eigen::RowVectorXd above = sum_up_to(i + 1 == pixels ? end : first + (i + 1) * step);
    result.row(i) = ((above - below) / step).cast<float>();
    below.swap(above);
  }
  return result;
}

Matrix SimilarityMap::map(const SimilarityWindow& window) const {
  const auto inside = [&](double first, double end) {
    return first >= 0.0 && first < end && end <= static_cast<double>(length());
  };
  if (!inside(window.row_first, window.row_end) ||
      !inside(window.column_first, window.column_end) || window.height <= 0 || window.width <= 0) {
    throw std::invalid_argument("SimilarityMap: a window outside the matrix");
  }
  const Matrix down = means(window.row_first, window.row_end, window.height);
  const Matrix across = means(window.column_first, window.column_end, window.width);
  Matrix result(window.height, window.width);
  result.noalias() = down * across.transpose();
  return result;
}

}  // namespace kvloupe
