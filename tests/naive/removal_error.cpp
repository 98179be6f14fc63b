#include "tests/naive/removal_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace kvloupe::naive {

long double error_over(const JudgingQuery& query, const Eigen::MatrixXd& values,
                       const std::vector<int>& present) {
  long double largest = -1e300L;
  for (const int i : present) largest = std::max<long double>(largest, query.logits[i]);
  for (const double logit : query.kept_logits) largest = std::max<long double>(largest, logit);
  long double mass = 0.0L, square = 0.0L;
  std::vector<long double> sum(static_cast<std::size_t>(values.cols()), 0.0L);
  const auto add = [&](double logit, const auto& value) {
    const long double e = std::exp(static_cast<long double>(logit) - largest);
    mass += e;
    for (std::size_t c = 0; c < sum.size(); ++c) {
      const auto column = static_cast<Eigen::Index>(c);
      sum[c] += e * static_cast<long double>(value(column) - query.target[column]);
    }
  };
  for (const int i : present) add(query.logits[i], values.row(i));
  for (Eigen::Index i = 0; i < query.kept_logits.size(); ++i) {
    add(query.kept_logits[i], query.kept_values.row(i));
  }
  for (const long double x : sum) square += x / mass * (x / mass);
  return square;
}

void expect_each_removal_is_the_least(const std::vector<JudgingQuery>& queries,
                                      const Eigen::MatrixXd& values,
                                      const std::vector<int>& order) {
  std::vector<int> present(static_cast<std::size_t>(values.rows()));
  std::iota(present.begin(), present.end(), 0);
  for (const int gone : order) {
    const auto error_without = [&](int row) {
      std::vector<int> rest;
      std::copy_if(present.begin(), present.end(), std::back_inserter(rest),
                   [&](int i) { return i != row; });
      long double error = 0.0L;
      for (const JudgingQuery& query : queries) error += error_over(query, values, rest);
      return error;
    };
    long double least = 1e300L;
    for (const int row : present) least = std::min(least, error_without(row));
    // If the cheapest costs nothing at all, rounding may prefer another that costs nothing.
    ASSERT_LE(error_without(gone), least * (1.0L + 1e-9L) + 1e-11L) << "row " << gone;
    std::erase(present, gone);
  }
}

}  // namespace kvloupe::naive
