// Products of queries with keys laid out in panels: every shape against plain sums in double.

#include "analysis/cache/key_panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace kvloupe {
namespace {

Matrix made(std::mt19937& random, Eigen::Index rows, Eigen::Index cols) {
  std::normal_distribution<float> normal;
  return Matrix::NullaryExpr(rows, cols, [&] { return normal(random); });
}

TEST(KeyPanels, ProductsEqualPlainSumsForEveryShape) {
  if (!KeyPanels::available()) GTEST_SKIP() << "this processor has no kernel";
  std::mt19937 random(3);
  KeyPanels panels;  // one object for all: what a larger cache left behind must not show
  for (const Eigen::Index n : {100, 1, 23, 24, 25, 47, 48, 49, 97}) {
    for (const Eigen::Index d : {1, 3, 16, 17, 128}) {
      // Keys lie in rows that are further apart than their length, as in a larger matrix.
      const Matrix wide = made(random, n, d + 5);
      const MatrixView keys(wide.data(), n, d, Eigen::OuterStride<>(wide.outerStride()));
      panels.lay_out(keys);
      const std::size_t stride = KeyPanels::padded(static_cast<std::size_t>(n)) + 3;
      ASSERT_GE(stride, static_cast<std::size_t>(n) + 3);
      for (const Eigen::Index rows : {1, 4, 7, 8, 9, 33}) {
        const Matrix queries = made(random, rows, d);
        for (const Eigen::Index seen : {Eigen::Index{1}, (n + 1) / 2, n}) {
          // All keys up to there, or only the later of them.
          const Eigen::Index oldest = rows % 2 == 1 ? seen / 3 : 0;
          std::vector<float> products(static_cast<std::size_t>(rows) * stride, -7.0F);
          panels.multiply(view(queries), oldest, seen, products.data(), stride);
          for (Eigen::Index r = 0; r < rows; ++r) {
            const float* row = products.data() + static_cast<std::size_t>(r) * stride;
            for (Eigen::Index i = oldest; i < seen; ++i) {
              double sum = 0.0, size = 0.0;
              for (Eigen::Index c = 0; c < d; ++c) {
                const double term =
                    static_cast<double>(queries(r, c)) * static_cast<double>(keys(i, c));
                sum += term;
                size += std::abs(term);
              }
              ASSERT_NEAR(row[i], sum, 1e-5 * size + 1e-30);
            }
            // Nothing beyond whole panels is touched.
            ASSERT_EQ(row[stride - 1], -7.0F);
            const auto before = static_cast<std::size_t>(oldest) / KeyPanels::padded(1);
            if (before > 0) {
              ASSERT_EQ(row[before * KeyPanels::padded(1) - 1], -7.0F);
            }
          }
        }
      }
    }
  }
}

TEST(KeyPanels, ARowDoesNotDependOnTheOthers) {
  if (!KeyPanels::available()) GTEST_SKIP() << "this processor has no kernel";
  std::mt19937 random(4);
  const Matrix keys = made(random, 70, 40), queries = made(random, 13, 40);
  KeyPanels panels;
  panels.lay_out(view(keys));
  const std::size_t stride = KeyPanels::padded(70);
  std::vector<float> all(13 * stride), one(stride);
  panels.multiply(view(queries), 0, 70, all.data(), stride);
  for (Eigen::Index r = 0; r < 13; ++r) {
    panels.multiply(rows(view(queries), r, 1), 0, 70, one.data(), stride);
    for (std::size_t i = 0; i < 70; ++i) {
      ASSERT_EQ(one[i], all[static_cast<std::size_t>(r) * stride + i]);
    }
  }
}

}  // namespace
}  // namespace kvloupe
