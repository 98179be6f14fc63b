#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <vector>

#include "analysis/policy/kit/policy.h"

namespace kvloupe::test {

/// Attention written down by the test: [rows of the block, n] per query head.
class GivenAttention : public StepAttention {
 public:
  std::vector<Matrix> rows;  // [Hq]
  MatrixView last_rows(int query_head, int count) override {
    const Matrix& all = rows[query_head];
    const Eigen::Index taken = std::min<Eigen::Index>(count, all.rows());
    return kvloupe::rows(view(all), all.rows() - taken, taken);
  }
  const std::vector<float>& column_sums(int query_head) override {
    const Eigen::RowVectorXf sums = rows[query_head].colwise().sum();
    return sums_[query_head] = {sums.data(), sums.data() + sums.size()};
  }

 private:
  std::map<int, std::vector<float>> sums_;
};

inline Matrix matrix(std::initializer_list<std::initializer_list<float>> rows) {
  Matrix result(static_cast<Eigen::Index>(rows.size()),
                static_cast<Eigen::Index>(rows.begin()->size()));
  Eigen::Index r = 0;
  for (const auto& row : rows) {
    Eigen::Index c = 0;
    for (const float x : row) result(r, c++) = x;
    ++r;
  }
  return result;
}

}  // namespace kvloupe::test
