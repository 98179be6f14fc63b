#include "analysis/math/numeric/row_products.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "tests/support/random_matrix.h"

namespace kvloupe::test {
namespace {

TEST(RowProducts, AreThoseOfPlainLoopsAndARowHasTheBitsOfTheRowAlone) {
  for (const auto& [rows, n, k] : {std::array{1, 1, 1},
                                   {1, 9, 64},
                                   {7, 300, 33},
                                   {32, 5, 576},
                                   {4, 2, 15},
                                   {18, 31, 100},
                                   {2, 3, 0}}) {
    const Matrix x = random_matrix(rows, k + 1, 1), w = random_matrix(n, k + 2, 2);
    Matrix products = Matrix::Ones(rows, n + 1);
    const auto size = [](int number) { return static_cast<std::size_t>(number); };
    multiply_rows({size(rows), size(n), size(k), x.data(), size(k + 1), w.data(), size(k + 2),
                   products.data(), size(n + 1)});
    for (int r = 0; r < rows; ++r) {
      std::vector<float> alone(size(n));
      multiply_rows({1, size(n), size(k), x.data() + r * (k + 1), size(k + 1), w.data(),
                     size(k + 2), alone.data(), size(n)});
      for (int j = 0; j < n; ++j) {
        double expected = 0.0, absolute = 0.0;
        for (int c = 0; c < k; ++c) {
          const double term = static_cast<double>(x(r, c)) * static_cast<double>(w(j, c));
          expected += term;
          absolute += std::abs(term);
        }
        EXPECT_NEAR(static_cast<double>(products(r, j)), expected, 1e-6 * absolute);
        EXPECT_EQ(products(r, j), alone[size(j)]);
      }
      EXPECT_EQ(products(r, n), 1.0F);  // nothing beyond the row
    }
  }
}

}  // namespace
}  // namespace kvloupe::test
