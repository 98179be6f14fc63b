// Measures of key geometry and of merged keys in a replay, beside plain loops.

#include "analysis/policy/kit/seen_queries.h"
#include "analysis/replay/cache/key_panels.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "tests/naive/decompositions.h"
#include "tests/naive/naive_geometry.h"
#include "tests/support/random_matrix.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct Model {
  int heads = 1;
  int window = 0;
};

struct KeyMeasuresTest : testing::TestWithParam<Model>, test::MadeTrace {
  KeyMeasuresTest()
      : MadeTrace({.heads = GetParam().heads, .sliding_window = GetParam().window, .clusters = 3}) {
  }
  Replay run(const std::string& policy, int budget) {
    return MadeTrace::run(policy, budget, {.measures = {"all"}});
  }

  naive::Vectors keys(const HeadReplay& head) const {
    return naive::vectors_of(states_.key[head.layer][head.head]);
  }
  naive::Vectors values(const HeadReplay& head) const {
    return naive::vectors_of(states_.value[head.layer][head.head]);
  }
  naive::Vectors queries(int layer, int query_head) const {
    return naive::vectors_of(states_.query[layer][query_head]);
  }
};

double at(const char* name, const StepRecord& record, int query_head = -1) {
  return measure_at(require_measure(name), record, query_head);
}

TEST_P(KeyMeasuresTest, DiversityOfWhatEachStepRetains) {
  for (const char* policy : {"keydiff", "h2o", "h2o+kvmerger(threshold=auto)"}) {
    const Replay replay = run(policy, 30);
    for (const HeadReplay& head : replay.heads) {
      const naive::Vectors k = keys(head);
      for (int step = 0; step < static_cast<int>(head.steps.size()); ++step) {
        const StepRecord& record = head.steps[step];
        const std::vector<std::int32_t> retained = replay.retained_at(head, step);
        const auto n = static_cast<double>(retained.size());
        const double objective = naive::objective(k, {retained.begin(), retained.end()});
        EXPECT_NEAR(at("key_objective", record), objective, 1e-9 * n * n);
        EXPECT_NEAR(at("key_mean_cosine", record), (objective - n) / (n * (n - 1.0)), 1e-9);
        if (record.retained == record.cache_size) {
          EXPECT_NEAR(at("relaxation_gap", record), 0.0, 1e-12);
        } else {
          EXPECT_GT(at("relaxation_gap", record), 0.0);
        }
      }
    }
  }
}

TEST_P(KeyMeasuresTest, GeometryOfTheTraceWhateverThePolicy) {
  const Replay replay = run("random", 20);
  const int group = options_.query_heads / options_.heads;
  for (const HeadReplay& head : replay.heads) {
    const naive::Vectors k = keys(head);
    double cosine = 0.0;
    for (int q = head.head * group; q < (head.head + 1) * group; ++q) {
      cosine += naive::cosine(naive::mean(k), naive::mean(queries(head.layer, q))) / group;
    }
    EXPECT_NEAR(measure_of(require_measure("mean_key_query_cosine"), head), cosine, 1e-12);
    double neighbours = 0.0;
    for (std::size_t t = 1; t < k.size(); ++t) neighbours += naive::cosine(k[t], k[t - 1]);
    EXPECT_NEAR(measure_of(require_measure("neighbour_key_cosine"), head),
                neighbours / static_cast<double>(k.size() - 1), 1e-12);
    const naive::Vectors v = values(head);
    ASSERT_GT(k.size(), 64U);
    double far_keys = 0.0, far_values = 0.0;
    for (std::size_t t = 64; t < k.size(); ++t) {
      far_keys += naive::cosine(k[t], k[t - 64]) / static_cast<double>(k.size() - 64);
      far_values += naive::cosine(v[t], v[t - 64]) / static_cast<double>(k.size() - 64);
    }
    EXPECT_NEAR(measure_of(require_measure("far_key_cosine"), head), far_keys, 1e-12);
    EXPECT_NEAR(measure_of(require_measure("far_value_cosine"), head), far_values, 1e-12);
    const double correlation = measure_of(require_measure("key_attention_correlation"), head);
    EXPECT_GE(correlation, -1.0);
    EXPECT_LE(correlation, 1.0);
  }
}

TEST_P(KeyMeasuresTest, TheTheoremsOfTheStrongestKey) {
  const Replay replay = run("keydiff", 20);
  const int group = options_.query_heads / options_.heads;
  for (const HeadReplay& head : replay.heads) {
    const naive::Vectors k = keys(head);
    for (std::size_t step = 0; step < head.steps.size(); ++step) {
      const auto last = static_cast<std::size_t>(replay.blocks[step].end - 1);
      const auto window = static_cast<std::size_t>(GetParam().window);
      const std::size_t first = window > 0 && last >= window ? last - window + 1 : 0;
      const naive::Vectors seen(k.begin() + static_cast<std::ptrdiff_t>(first),
                                k.begin() + static_cast<std::ptrdiff_t>(last + 1));
      for (int i = 0; i < group; ++i) {
        const naive::Vector q = queries(head.layer, head.head * group + i)[last];
        std::size_t star = 0;
        for (std::size_t t = 0; t < seen.size(); ++t) {
          if (naive::dot(seen[t], q) >= naive::dot(seen[star], q)) star = t;
        }
        const naive::Alignment expected =
            naive::attention_alignment(q, seen, states_.run.attention_scale, star);
        const StepRecord& record = head.steps[step];
        EXPECT_NEAR(at("strongest_weight", record, i), expected.weight, 1e-12);
        EXPECT_NEAR(at("strongest_cosine", record, i), expected.cosine, 1e-12);
        EXPECT_NEAR(at("theorem_c1_bound", record, i), expected.paper_bound, 1e-9);
        EXPECT_NEAR(at("jensen_bound", record, i), expected.jensen_bound, 1e-9);
        EXPECT_LE(at("jensen_bound", record, i), at("strongest_cosine", record, i) + 1e-12);
        EXPECT_LE(at("mean_key_cosine", record, i), at("spherical_bound", record, i) + 1e-12);
        EXPECT_LE(at("spherical_bound", record, i), at("theorem_c3_bound", record, i) + 1e-12);
      }
    }
  }
}

TEST_P(KeyMeasuresTest, MergedKeysOnlyWhereThereAreMerges) {
  const Replay merged = run("h2o+kvmerger(threshold=auto)", 30);
  long merges = 0;
  for (const HeadReplay& head : merged.heads) {
    for (const StepRecord& record : head.steps) {
      const double members = at("merge_effective_members", record);
      EXPECT_EQ(std::isnan(members), record.merges.empty());
      if (record.merges.empty()) continue;
      ++merges;
      EXPECT_GE(members, 1.0 - 1e-9);
      EXPECT_LE(std::abs(at("merged_key_cosine", record)), 1.0);
    }
  }
  EXPECT_GT(merges, 0);
}

INSTANTIATE_TEST_SUITE_P(Heads, KeyMeasuresTest,
                         ::testing::Values(Model{1}, Model{2}, Model{4}, Model{2, 40}));

/// How far a direction is from an eigenvector of the largest eigenvalue, relative to that. The
/// matrix has no negative eigenvalue, so its singular values are its eigenvalues.
double residual(const Eigen::MatrixXd& matrix) {
  const Eigen::VectorXd direction = main_direction(matrix);
  const double largest = naive::singular_values(matrix)[0];
  EXPECT_NEAR(direction.norm(), 1.0, 1e-12);
  return (matrix * direction - largest * direction).norm() / std::max(std::abs(largest), 1e-300);
}

TEST(MainDirection, BelongsToTheLargestEigenvalue) {
  for (const int n : {1, 2, 3, 8, 48, 128}) {
    for (const int rows : {1, 2, n, 4 * n}) {
      const Eigen::MatrixXd x =
          test::random_matrix(rows, n, static_cast<unsigned>(n + rows)).cast<double>();
      EXPECT_LT(residual(x.transpose() * x), 1e-11) << n << " " << rows;
    }
  }
}

TEST(MainDirection, IsFoundWhereTheLargestEigenvaluesAreEqual) {
  EXPECT_LT(residual(Eigen::MatrixXd::Identity(16, 16)), 1e-12);
  Eigen::VectorXd values = Eigen::VectorXd::LinSpaced(16, 0.0, 1.0);
  values[3] = values[9] = 2.0;
  EXPECT_LT(residual(values.asDiagonal()), 1e-12);
  values[3] += 1e-13;
  EXPECT_LT(residual(values.asDiagonal()), 1e-12);
  const Eigen::MatrixXd none = Eigen::MatrixXd::Zero(16, 16);
  EXPECT_NEAR(main_direction(none).norm(), 1.0, 1e-12);
}

// Products of queries with keys laid out in panels: every shape against plain sums in double.

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
