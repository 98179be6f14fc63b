// Measures of merging, beside plain loops in double.

#include "analysis/metric/merging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "analysis/replay/compression.h"

namespace kvloupe {
namespace {

Matrix random_rows(Eigen::Index n, Eigen::Index d, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix rows(n, d);
  for (Eigen::Index i = 0; i < rows.size(); ++i) rows.data()[i] = normal(random);
  return rows;
}

double naive_cosine(const float* a, const float* b, Eigen::Index d) {
  double dot = 0.0, a_square = 0.0, b_square = 0.0;
  for (Eigen::Index c = 0; c < d; ++c) {
    dot += static_cast<double>(a[c]) * static_cast<double>(b[c]);
    a_square += static_cast<double>(a[c]) * static_cast<double>(a[c]);
    b_square += static_cast<double>(b[c]) * static_cast<double>(b[c]);
  }
  return a_square > 0.0 && b_square > 0.0 ? dot / std::sqrt(a_square * b_square) : 0.0;
}

TEST(MergeMeasures, ByHand) {
  // Keys (1,0), (0,2), (3,3); weights 1/2, 1/4, 1/4; merged (1.25, 1.25).
  // Least cosine: of the first two, 0. 1/(1/4 + 1/16 + 1/16) = 8/3. The merged key points at 45°:
  // cosines √½, √½, 1.
  Matrix keys(3, 2);
  keys << 1, 0, 0, 2, 3, 3;
  const std::vector<int> members = {0, 1, 2};
  const std::vector<float> weights = {0.5F, 0.25F, 0.25F}, merged = {1.25F, 1.25F};
  const MergeMeasures measures = merge_measures(view(keys), members, weights, merged);
  EXPECT_NEAR(measures.least_cosine, 0.0, 1e-12);
  EXPECT_NEAR(measures.effective_members, 8.0 / 3.0, 1e-12);
  EXPECT_NEAR(measures.least_member_cosine, std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(measures.mean_member_cosine, (1.0 + 2.0 * std::sqrt(0.5)) / 3.0, 1e-12);
}

TEST(MergeMeasures, EqualTheNaiveOnes) {
  for (const int size : {1, 2, 5, 64, 130}) {
    Matrix keys = random_rows(200, 12, static_cast<unsigned>(size));
    if (size == 5) keys.row(6).setZero();
    std::vector<int> members;
    std::vector<float> weights;
    std::vector<float> merged(12, 0.0F);
    for (int i = 0; i < size; ++i) {
      members.push_back(3 + i);
      weights.push_back(1.0F / static_cast<float>(size));
      for (int c = 0; c < 12; ++c) {
        merged[static_cast<std::size_t>(c)] += weights.back() * keys(3 + i, c);
      }
    }
    const MergeMeasures fast = merge_measures(view(keys), members, weights, merged);
    double least = 1.0, least_merged = 1.0, sum = 0.0;
    for (const int a : members) {
      for (const int b : members) {
        if (a != b) least = std::min(least, naive_cosine(&keys(a, 0), &keys(b, 0), 12));
      }
      const double cosine = naive_cosine(&keys(a, 0), merged.data(), 12);
      least_merged = std::min(least_merged, cosine);
      sum += cosine;
    }
    EXPECT_NEAR(fast.least_cosine, least, 1e-12) << size;
    EXPECT_NEAR(fast.least_member_cosine, least_merged, 1e-12);
    EXPECT_NEAR(fast.mean_member_cosine, sum / size, 1e-12);
    EXPECT_NEAR(fast.effective_members, size, 1e-4 * size);
  }
}

TEST(LocalSimilarity, EqualsTheNaiveOne) {
  Matrix rows = random_rows(40, 9, 4);
  rows.row(17).setZero();
  const std::vector<double> mean = mean_local_similarity(view(rows), 45);
  ASSERT_EQ(mean.size(), 45U);
  for (int distance = 1; distance <= 45; ++distance) {
    double sum = 0.0;
    int pairs = 0;
    for (int i = distance; i < 40; ++i) {
      const double cosine = naive_cosine(&rows(i, 0), &rows(i - distance, 0), 9);
      sum += cosine;
      ++pairs;
      ASSERT_NEAR(local_similarity(view(rows), i, 45)[static_cast<std::size_t>(distance - 1)],
                  cosine, 1e-12);
    }
    const double value = mean[static_cast<std::size_t>(distance - 1)];
    if (pairs == 0) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_NEAR(value, sum / pairs, 1e-12);
    }
  }
  EXPECT_TRUE(std::isnan(local_similarity(view(rows), 3, 4)[3]));
}

TEST(LayerCompression, IsWhatIsLeftOfWhatWasSeen) {
  // Layer 2: heads with 4 and 6 of 8; layer 5: 8 of 8 in one head.
  Replay replay;
  replay.blocks = {{0, 4}, {4, 8}};
  const auto head = [](int layer, int number, int first, int second) {
    HeadReplay result;
    result.layer = layer;
    result.head = number;
    result.steps.resize(2);
    result.steps[0].retained = first;
    result.steps[1].retained = second;
    return result;
  };
  replay.heads = {head(2, 0, 4, 4), head(2, 1, 3, 6), head(5, 0, 4, 8)};
  const auto layers = layer_compression(replay, 1);
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[0].layer, 2);
  EXPECT_DOUBLE_EQ(layers[0].mean, 0.625);
  EXPECT_DOUBLE_EQ(layers[0].least, 0.5);
  EXPECT_DOUBLE_EQ(layers[0].most, 0.75);
  EXPECT_DOUBLE_EQ(layers[1].mean, 1.0);
  EXPECT_DOUBLE_EQ(layer_compression(replay, 0)[0].mean, 0.875);
  EXPECT_THROW(layer_compression(replay, 2), std::out_of_range);
}

}  // namespace
}  // namespace kvloupe
