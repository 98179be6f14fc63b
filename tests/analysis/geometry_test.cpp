// Key geometry: angles, rank correlation, the bounds of KeyDiff's appendix C, diversity, cost, and
// KVMerger's lemma 3.2, each beside plain loops in double and cases worked by hand.

#include <numbers>

#include "analysis/math/angle.h"
#include "analysis/math/attention.h"
#include "analysis/math/bounds.h"
#include "analysis/math/cost_model.h"
#include "analysis/math/diversity.h"
#include "analysis/math/numeric/statistics.h"
#include "analysis/math/rank_correlation.h"
#include "analysis/math/rope.h"
#include "tests/naive/naive_geometry.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using naive::Vector;
using naive::Vectors;

Matrix random_rows(Eigen::Index n, Eigen::Index d, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Matrix rows(n, d);
  for (Eigen::Index i = 0; i < rows.size(); ++i) rows.data()[i] = normal(random);
  return rows;
}

std::span<const float> row_of(const Matrix& rows, Eigen::Index i) {
  return {rows.data() + i * rows.cols(), static_cast<std::size_t>(rows.cols())};
}

/// Keys and queries of several kinds: clusters, a sink, neither.
std::vector<test::SyntheticStates> some_states() {
  std::vector<test::SyntheticStates> all;
  for (const int clusters : {0, 3}) {
    all.push_back(test::make_synthetic_states({.seed = static_cast<std::uint64_t>(5 + clusters),
                                               .clusters = clusters,
                                               .sink_logit = clusters == 0 ? 0.0F : 6.0F}));
  }
  return all;
}

TEST(Angles, ByHand) {
  // Rows (2,0), (0,1), (0,0): mean (2/3, 1/3); unit rows (1,0), (0,1), zero: mean (1/3, 1/3).
  Matrix rows(3, 2);
  rows << 2, 0, 0, 1, 0, 0;
  EXPECT_NEAR(mean_row(view(rows))[0], 2.0 / 3.0, 1e-15);
  const Eigen::RowVectorXd anchor = mean_direction(view(rows));
  EXPECT_NEAR(anchor[0], 1.0 / 3.0, 1e-15);
  EXPECT_NEAR(anchor[1], 1.0 / 3.0, 1e-15);
  // The anchor points at 45°: so far from it are the first two; the zero row counts as 90°.
  const std::vector<double> angles = angles_to(view(rows), anchor);
  EXPECT_NEAR(angles[0], 45.0, 1e-12);
  EXPECT_NEAR(angles[1], 45.0, 1e-12);
  EXPECT_NEAR(angles[2], 90.0, 1e-12);
  // Opposite rows: cosine −1 to the one other.
  Matrix opposite(2, 2);
  opposite << 1, 0, -3, 0;
  EXPECT_NEAR(mean_cosines_to_others(view(opposite))[0], -1.0, 1e-15);
  EXPECT_NEAR(angles_to(view(opposite), Eigen::RowVector2d(-1, 0))[0], 180.0, 1e-12);
  EXPECT_TRUE(std::isnan(mean_cosines_to_others(view(Matrix(rows.topRows(1))))[0]));
}

TEST(Angles, DistinctRowsByHand) {
  // Three rows at 0°, one at 90°, one at 180°: the anchor is (2, 1)/5, so the furthest from it is
  // the last, then the fourth. Cosine to (−1, 0): 1 for one row, (1 + 0)/2 for two.
  Matrix rows(5, 2);
  rows << 1, 0, 2, 0, 1, 0, 0, 3, -1, 0;
  const Eigen::RowVector2d direction(-1, 0);
  EXPECT_NEAR(distinct_rows_cosine(view(rows), direction, 1), 1.0, 1e-15);
  EXPECT_NEAR(distinct_rows_cosine(view(rows), direction, 2), 0.5, 1e-15);
  EXPECT_NEAR(distinct_rows_cosine(view(rows), direction, 99), -2.0 / 5.0, 1e-15);
  EXPECT_TRUE(std::isnan(distinct_rows_cosine(view(rows), direction, 0)));
}

TEST(Angles, EqualTheNaiveOnes) {
  Matrix rows = random_rows(60, 11, 3);
  rows.row(17).setZero();
  const Vectors plain = naive::vectors_of(rows);
  const Vector mean = naive::mean(plain), anchor = naive::mean_direction(plain);
  const Eigen::RowVectorXd fast_mean = mean_row(view(rows));
  const Eigen::RowVectorXd fast_anchor = mean_direction(view(rows));
  for (Eigen::Index c = 0; c < 11; ++c) {
    EXPECT_NEAR(fast_mean[c], mean[c], 1e-14);
    EXPECT_NEAR(fast_anchor[c], anchor[c], 1e-14);
  }
  const std::vector<double> cosines = cosines_to(view(rows), fast_mean);
  const std::vector<double> angles = angles_to(view(rows), fast_mean);
  const std::vector<double> others = mean_cosines_to_others(view(rows));
  Vector anchor_cosines;
  for (std::size_t i = 0; i < 60; ++i) {
    const double cosine = naive::cosine(plain[i], mean);
    EXPECT_NEAR(cosines[i], cosine, 1e-13);
    EXPECT_NEAR(std::cos(angles[i] * std::numbers::pi / 180.0), cosine, 1e-13);
    if (i != 17) {
      EXPECT_NEAR(others[i], naive::mean_cosine_to_others(plain, i), 1e-13);
    }
    anchor_cosines.push_back(naive::cosine(plain[i], anchor));
  }
  EXPECT_EQ(others[17], 0.0);
  for (const int count : {1, 7, 60}) {
    Vector sorted = anchor_cosines;
    std::sort(sorted.begin(), sorted.end());
    double sum = 0.0;
    for (std::size_t i = 0; i < 60; ++i) {
      if (anchor_cosines[i] <= sorted[count - 1]) {
        sum += naive::cosine(plain[i], mean);
      }
    }
    EXPECT_NEAR(distinct_rows_cosine(view(rows), fast_mean, count), sum / count, 1e-13);
  }
}

TEST(RankCorrelation, ByHand) {
  // 10, 20, 20, 5 rank 2, 3½, 3½, 1.
  const std::vector<double> values = {10, 20, 20, 5};
  EXPECT_EQ(ranks_of(values), (std::vector<double>{2, 3.5, 3.5, 1}));
  // No ties: ρ = 1 − 6Σd²/(n(n² − 1)); ranks 1 2 3 4 against 2 1 4 3: Σd² = 4, ρ = 1 − 24/60.
  EXPECT_NEAR(spearman(std::vector<double>{1, 2, 3, 4}, std::vector<double>{20, 10, 40, 30}), 0.6,
              1e-15);
  EXPECT_NEAR(spearman(values, std::vector<double>{1, 2, 2, 0}), 1.0, 1e-15);
  EXPECT_NEAR(spearman(values, std::vector<double>{-1, -2, -2, 0}), -1.0, 1e-15);
  EXPECT_TRUE(std::isnan(spearman(values, std::vector<double>{7, 7, 7, 7})));
  EXPECT_TRUE(std::isnan(spearman({}, {})));
  EXPECT_THROW(spearman(values, std::vector<double>{1}), std::invalid_argument);
  EXPECT_THROW(ranks_of(std::vector<double>{1, std::nan("")}), std::invalid_argument);
}

TEST(RankCorrelation, HasTheIntervalOfBonettAndWright) {
  const std::vector<double> a{1, 2, 3, 4, 5, 6, 7}, b{2, 1, 4, 3, 6, 5, 7};
  const CorrelationInterval found = spearman_interval(a, b);
  const double rho = 1.0 - 6.0 * 6.0 / (7.0 * 48.0);
  EXPECT_NEAR(found.rho, rho, 1e-12);
  // Fisher's z = ½ ln((1 + ρ)/(1 − ρ)), and back.
  const double z = 0.5 * std::log((1 + rho) / (1 - rho));
  const double reach = 1.959964 * std::sqrt((1 + rho * rho / 2) / 4);
  const auto back = [](double at) { return (std::exp(2 * at) - 1) / (std::exp(2 * at) + 1); };
  EXPECT_NEAR(found.low, back(z - reach), 1e-6);
  EXPECT_NEAR(found.high, back(z + reach), 1e-6);
  EXPECT_EQ(spearman_interval(a, a).low, 1.0);
  const std::vector<double> three{1, 2, 3};
  EXPECT_TRUE(std::isnan(spearman_interval(three, three).low));
}

TEST(RankCorrelation, EqualsTheNaiveOneWithTies) {
  std::mt19937 random(4);
  std::uniform_int_distribution<int> few(0, 6);
  for (int round = 0; round < 20; ++round) {
    Vector a, b, a_ranks, b_ranks;
    for (int i = 0; i < 40; ++i) {
      a.push_back(few(random));
      b.push_back(few(random) + 0.3 * a.back());
    }
    for (std::size_t i = 0; i < 40; ++i) {
      a_ranks.push_back(naive::rank_of(a, i));
      b_ranks.push_back(naive::rank_of(b, i));
    }
    EXPECT_EQ(ranks_of(a), a_ranks);
    EXPECT_NEAR(spearman(a, b), naive::correlation(a_ranks, b_ranks), 1e-13);
  }
}

TEST(KeyAttention, EqualsTheNaiveOne) {
  for (const test::SyntheticStates& states : some_states()) {
    const Matrix& keys = states.key[1][1];
    const std::vector<Matrix> queries = {states.query[1][2], states.query[1][3]};
    const double scale = states.run.attention_scale;
    const KeyAttention fast =
        key_attention(view(keys), queries, static_cast<float>(scale), 0, test::unwatched);
    const Vectors k = naive::vectors_of(keys);
    Vector received(k.size(), 0.0), cosines;
    for (const Matrix& of_head : queries) {
      const Vectors q = naive::vectors_of(of_head);
      for (std::size_t t = 0; t < q.size(); ++t) {
        double sum = 0.0;
        for (std::size_t i = 0; i <= t; ++i) sum += std::exp(naive::dot(q[t], k[i]) * scale);
        for (std::size_t i = 0; i <= t; ++i) {
          received[i] += std::exp(naive::dot(q[t], k[i]) * scale) / sum /
                         static_cast<double>(k.size() - i) / 2.0;
        }
      }
    }
    Vector ranks, cosine_ranks;
    for (std::size_t i = 0; i < k.size(); ++i) {
      EXPECT_NEAR(fast.received[i], received[i], 2e-6);
      cosines.push_back(naive::mean_cosine_to_others(k, i));
    }
    for (std::size_t i = 0; i < k.size(); ++i) {
      ranks.push_back(naive::rank_of(received, i));
      cosine_ranks.push_back(naive::rank_of(cosines, i));
    }
    // Two neighbours in rank may swap in float32.
    EXPECT_NEAR(fast.correlation, naive::correlation(ranks, cosine_ranks), 1e-3);
  }
}

TEST(AttentionAlignment, ByHand) {
  // q = (1,0), scale 1, k* = (1,0), one other key (0,1): logits 1 and 0, w = e/(e+1).
  // Paper: M = 1, (log ½ − log(1/(e+1)))/2 − 1 = (log(e+1) − log 2)/2 − 1 = −0.68994.
  // Ours: log(w/(1−w)) = 1, log 1 = 0, the other's product 0, ‖k*‖ = 1: 1, which is the cosine.
  Matrix keys(2, 2);
  keys << 1, 0, 0, 1;
  const std::vector<float> query = {1, 0};
  const AttentionAlignment a = attention_alignment(query, view(keys), 1.0, 0);
  EXPECT_NEAR(a.weight, std::numbers::e / (std::numbers::e + 1.0), 1e-15);
  EXPECT_NEAR(a.cosine, 1.0, 1e-15);
  EXPECT_NEAR(a.paper_bound, 0.5 * (std::log(std::numbers::e + 1.0) - std::log(2.0)) - 1.0, 1e-14);
  EXPECT_NEAR(a.jensen_bound, 1.0, 1e-14);
}

TEST(AttentionAlignment, ThePapersBoundCanFailWhereTheCosineIsNegative) {
  // Two keys (−10,0), k* = (−1,0), q = (1,0): the cosine is −1. Logits −1, −10, −10:
  // 1 − w = 2e⁻¹⁰/(2e⁻¹⁰ + e⁻¹) = 2.4674e-4, M = 100,
  // (log ⅔ − log 2.4674e-4)/200 − 1 = (−0.40547 + 8.30710)/200 − 1 = −0.96049 > −1.
  Matrix keys(3, 2);
  keys << -10, 0, -10, 0, -1, 0;
  const std::vector<float> query = {1, 0};
  const AttentionAlignment a = attention_alignment(query, view(keys), 1.0, 2);
  EXPECT_NEAR(a.cosine, -1.0, 1e-15);
  EXPECT_NEAR(a.paper_bound, -0.96049, 1e-5);
  EXPECT_GT(a.paper_bound, a.cosine);
  EXPECT_NEAR(a.jensen_bound, -1.0, 1e-12);  // equal others: Jensen is exact
}

TEST(AttentionAlignment, OursHoldsForEveryHeadAndQuery) {
  for (const test::SyntheticStates& states : some_states()) {
    const double scale = states.run.attention_scale;
    int compared = 0;
    for (std::size_t layer = 0; layer < states.key.size(); ++layer) {
      for (std::size_t q = 0; q < states.query[layer].size(); ++q) {
        const auto head = static_cast<std::size_t>(states.model.head_of(static_cast<int>(q)));
        const Matrix& queries = states.query[layer][q];
        const Matrix& keys = states.key[layer][head];
        for (Eigen::Index t = 1; t < queries.rows(); ++t) {
          const MatrixView seen = rows(view(keys), 0, t + 1);
          for (const Eigen::Index star : {Eigen::Index{0}, t / 2, t}) {
            const AttentionAlignment a = attention_alignment(row_of(queries, t), seen, scale, star);
            ASSERT_LE(a.jensen_bound, a.cosine + 1e-12) << layer << ' ' << q << ' ' << t;
            ASSERT_LE(a.paper_bound, 1e-12);  // never positive
            if (t % 9 != 0) continue;
            Vectors plain = naive::vectors_of(keys);
            plain.resize(static_cast<std::size_t>(t + 1));
            const naive::Alignment slow = naive::attention_alignment(
                naive::vectors_of(queries)[t], plain, scale, static_cast<std::size_t>(star));
            ASSERT_NEAR(a.weight, slow.weight, 1e-12);
            ASSERT_NEAR(a.cosine, slow.cosine, 1e-12);
            ASSERT_NEAR(a.paper_bound, slow.paper_bound, 1e-9);
            ASSERT_NEAR(a.jensen_bound, slow.jensen_bound, 1e-9);
            ++compared;
          }
        }
      }
    }
    EXPECT_GT(compared, 100);
  }
}

TEST(AttentionAlignment, EdgesAreNamedNotHidden) {
  Matrix keys(1, 2);
  keys << 1, 0;
  const std::vector<float> query = {1, 0};
  const AttentionAlignment alone = attention_alignment(query, view(keys), 1.0, 0);
  EXPECT_EQ(alone.weight, 1.0);
  EXPECT_TRUE(std::isnan(alone.paper_bound));
  EXPECT_TRUE(std::isnan(alone.jensen_bound));
  EXPECT_THROW(attention_alignment(query, view(keys), 1.0, 1), std::out_of_range);
  EXPECT_THROW(mean_key_alignment(query, view(keys), -1), std::out_of_range);
  // A weight that rounds to one has a finite bound: 1 − w is never formed.
  Matrix far(2, 2);
  far << 1000, 0, -1000, 0;
  const AttentionAlignment sure = attention_alignment(query, view(far), 1.0, 0);
  EXPECT_EQ(sure.weight, 1.0);
  EXPECT_NEAR(sure.paper_bound, (std::log(0.5) + 2000.0) / 2e6 - 1.0, 1e-12);
  EXPECT_NEAR(sure.jensen_bound, 1.0, 1e-12);
}

TEST(StrongestKey, IsTheOneWithMostAttention) {
  Matrix keys(4, 2);
  keys << 1, 0, 3, 1, 3, -1, 0, 9;
  EXPECT_EQ(strongest_key(std::vector<float>{1, 0}, view(keys)), 2);  // a tie: the later one
  EXPECT_EQ(strongest_key(std::vector<float>{1, 0}, view(Matrix(0, 2))), -1);
}

TEST(MeanKeyAlignment, ByHand) {
  // Keys (−3,0), (1,√3)·½·2 = (1,√3), q = (1,0): k̄ = (−1, √3/2), k* the second.
  // α = −1/√(1 + ¾) = −2/√7, β = ½, cos(k̄,k*) = (−1 + 3/2)/(√7/2·2) = 1/(2√7).
  Matrix keys(2, 2);
  keys << -3, 0, 1, std::sqrt(3.0F);
  const MeanKeyAlignment a = mean_key_alignment(std::vector<float>{1, 0}, view(keys), 1);
  EXPECT_NEAR(a.alpha, -2.0 / std::sqrt(7.0), 1e-7);
  EXPECT_NEAR(a.beta, 0.5, 1e-7);
  EXPECT_NEAR(a.measured, 0.5 / std::sqrt(7.0), 1e-7);
  EXPECT_LT(a.alpha, 0.0) << "the theorem's premise: α < 0 < β";
  EXPECT_NEAR(a.paper_bound, 1.0 + a.alpha * a.beta - 0.5 * a.alpha * a.alpha - 0.125, 1e-7);
  // In the plane the three lie in a row: the triangle is flat and the tight bound is met.
  EXPECT_NEAR(a.tight_bound, a.measured, 1e-7);
}

TEST(MeanKeyAlignment, TheBoundsHoldForEveryHeadAndQuery) {
  for (const test::SyntheticStates& states : some_states()) {
    int with_premise = 0;
    for (std::size_t layer = 0; layer < states.key.size(); ++layer) {
      for (std::size_t q = 0; q < states.query[layer].size(); ++q) {
        const auto head = static_cast<std::size_t>(states.model.head_of(static_cast<int>(q)));
        const Matrix& queries = states.query[layer][q];
        const Matrix& keys = states.key[layer][head];
        for (Eigen::Index t = 1; t < queries.rows(); ++t) {
          const MatrixView seen = rows(view(keys), 0, t + 1);
          for (const Eigen::Index star :
               {Eigen::Index{0}, strongest_key(row_of(queries, t), seen)}) {
            const MeanKeyAlignment a = mean_key_alignment(row_of(queries, t), seen, star);
            ASSERT_LE(a.measured, a.tight_bound + 1e-12);
            ASSERT_LE(a.tight_bound, a.paper_bound + 1e-12);
            with_premise += a.alpha < 0.0 && a.beta > 0.0 ? 1 : 0;
            if (t % 9 != 0) continue;
            Vectors plain = naive::vectors_of(keys);
            plain.resize(static_cast<std::size_t>(t + 1));
            const Vector query = naive::vectors_of(queries)[t];
            const Vector mean = naive::mean(plain);
            const Vector& own = plain[star];
            const double alpha = naive::cosine(mean, query), beta = naive::cosine(own, query);
            ASSERT_NEAR(a.alpha, alpha, 1e-12);
            ASSERT_NEAR(a.beta, beta, 1e-12);
            ASSERT_NEAR(a.measured, naive::cosine(mean, own), 1e-12);
            ASSERT_NEAR(a.paper_bound, 1.0 + alpha * beta - alpha * alpha / 2.0 - beta * beta / 2.0,
                        1e-12);
            ASSERT_NEAR(a.tight_bound,
                        alpha * beta + std::sqrt((1 - alpha * alpha) * (1 - beta * beta)), 1e-9);
          }
        }
      }
    }
    EXPECT_GT(with_premise, 20);  // the case of the theorem is among them
  }
}

TEST(Diversity, ByHand) {
  // Directions (1,0), (1,0), (0,1), (−1,0); S = the first three: Σ = (2,1), objective 5, of which 3
  // are the keys with themselves: mean cosine of the 6 ordered pairs 2/6.
  // μ(K̂_S) = (⅔, ⅓), μ(K̂) = (¼, ¼): gap √((5/12)² + (1/12)²) = √26/12.
  Matrix keys(4, 2);
  keys << 2, 0, 5, 0, 0, 1, -1, 0;
  const std::vector<std::int32_t> all = {0, 1, 2, 3}, set = {0, 1, 2};
  const Diversity d = key_diversity(view(keys), all, set);
  EXPECT_NEAR(d.objective, 5.0, 1e-14);
  EXPECT_NEAR(d.mean_cosine, 1.0 / 3.0, 1e-14);
  EXPECT_NEAR(d.relaxation_gap, std::sqrt(26.0) / 12.0, 1e-14);
  EXPECT_NEAR(key_diversity(view(keys), all, all).relaxation_gap, 0.0, 1e-15);
  EXPECT_TRUE(std::isnan(key_diversity(view(keys), all, {}).relaxation_gap));
  EXPECT_TRUE(std::isnan(key_diversity(view(keys), all, std::vector<std::int32_t>{2}).mean_cosine));
}

TEST(Diversity, EqualsTheNaiveOne) {
  Matrix keys = random_rows(50, 9, 12);
  keys.row(8).setZero();
  std::vector<std::int32_t> present(40), set;
  std::iota(present.begin(), present.end(), 5);
  for (int i = 5; i < 45; i += 3) set.push_back(i);
  const Diversity fast = key_diversity(view(keys), present, set);
  const Vectors plain = naive::vectors_of(keys);
  EXPECT_NEAR(fast.objective, naive::objective(plain, set), 1e-11);
  Vectors kept, all;
  for (const int i : set) kept.push_back(plain[i]);
  for (const int i : present) all.push_back(plain[i]);
  const Vector a = naive::mean_direction(kept), b = naive::mean_direction(all);
  double squares = 0.0, pairs = 0.0;
  for (std::size_t c = 0; c < a.size(); ++c) squares += (a[c] - b[c]) * (a[c] - b[c]);
  EXPECT_NEAR(fast.relaxation_gap, std::sqrt(squares), 1e-13);
  for (const auto& [i, j] : test::cells(kept.size(), kept.size())) {
    if (i != j) pairs += naive::cosine(kept[i], kept[j]);
  }
  const auto n = static_cast<double>(kept.size());
  EXPECT_NEAR(fast.mean_cosine, pairs / (n * (n - 1.0)), 1e-13);
}

TEST(CostModel, IsWhatTheTwoExpressionsDoButForTheSlipInTheAdditions) {
  for (const auto& [n, d] : {std::pair<int, int>{1, 1}, {7, 4}, {20, 3}}) {
    const naive::Operations counted = naive::count_keydiff(naive::vectors_of(random_rows(n, d, 1)));
    const OperationCount model = keydiff_operations(n, d);
    EXPECT_EQ(model.multiplications, counted.multiplications);
    EXPECT_EQ(model.square_roots, counted.roots);
    // The paper has one division more than the expressions do, and n additions more.
    EXPECT_EQ(model.divisions, counted.divisions + 1);
    EXPECT_EQ(model.additions, counted.additions + n);
    EXPECT_EQ(model.flops(), (6.0 * d + 18.0) * n + d + 17.0);
  }
}

TEST(CostModel, OrdersOfTable4) {
  // N = 100, B = 20, L = 8: n = 120.
  const auto order = [](const char* policy) { return cost_order(parse_policy(policy)); };
  const StepShape step{120, 20};
  EXPECT_EQ(order("keydiff")->runtime_units(step), 120);
  EXPECT_EQ(order("tova")->memory_units(step), 120);
  EXPECT_EQ(order("h2o")->runtime_units(step), 100 * 20 + 20 * 20);  // NB + B²
  EXPECT_EQ(order("snapkv(window=8)")->runtime_units(step), 120 * 8);
  EXPECT_EQ(order("sink")->runtime_units(step), 100);
  EXPECT_EQ(order("sink")->memory_units(step), 1);
  EXPECT_EQ(order("snapkv")->runtime_units(step), 120 * 20);  // a window beyond the block
  EXPECT_FALSE(order("random"));
}

ModelInfo rotary_model(int head_dim, RopePairing pairing) {
  return ModelInfo{
      .head_dim = head_dim, .rope_theta = 10000.0, .rope_scaling = "null", .rope_pairing = pairing};
}

TEST(PairRotation, CollinearKeysTurnBackByExactlyTheirDistance) {
  // The same key at every position after RoPE: before it, pair j of two neighbours differs by the
  // angle (m − n)·θ_j.
  for (const RopePairing pairing : {RopePairing::half, RopePairing::interleaved}) {
    Matrix keys(12, 8);
    const Matrix one = random_rows(1, 8, 2);
    for (Eigen::Index i = 0; i < 12; ++i) keys.row(i) = one * static_cast<float>(1 << (i % 3));
    for (const int distance : {1, 3, 5}) {
      const auto pairs = pair_rotations(view(keys), rotary_model(8, pairing), distance);
      ASSERT_EQ(pairs.size(), 4U);
      for (std::size_t j = 0; j < 4; ++j) {
        const double theta = std::pow(10000.0, -2.0 * static_cast<double>(j) / 8.0);
        EXPECT_NEAR(pairs[j].predicted, std::cos(distance * theta), 1e-15);
        EXPECT_NEAR(pairs[j].before, pairs[j].predicted, 1e-12) << j;
        EXPECT_NEAR(pairs[j].after, 1.0, 1e-12);
        EXPECT_EQ(pairs[j].neighbours, 12 - distance);
        // cos(m − n) <= cos((m − n)θ_j) <= 1 as θ_j <= 1, for distances up to 3.
        if (distance <= 3) {
          EXPECT_EQ(pairs[j].inside, 1.0);
        } else {
          EXPECT_TRUE(std::isnan(pairs[j].inside));
        }
      }
    }
  }
}

TEST(PairRotation, EqualsTheNaiveOne) {
  for (const RopePairing pairing : {RopePairing::half, RopePairing::interleaved}) {
    const ModelInfo model = rotary_model(10, pairing);
    const Matrix keys = random_rows(30, 10, 6);
    const Vectors plain = naive::vectors_of(keys);
    for (const double least : {-1.0, 0.1}) {
      const auto fast = pair_rotations(view(keys), model, 2, least);
      for (int j = 0; j < 5; ++j) {
        double sum = 0.0, inside = 0.0;
        long count = 0;
        for (std::size_t m = 2; m < 30; ++m) {
          if (naive::cosine(plain[m], plain[m - 2]) < least) continue;
          const double cosine = naive::cosine_before_rope(plain, model, m, m - 2, j);
          sum += cosine;
          inside += cosine >= std::cos(2.0) ? 1.0 : 0.0;
          ++count;
        }
        const PairRotation& one = fast[j];
        EXPECT_EQ(one.neighbours, count);
        EXPECT_NEAR(one.before, sum / static_cast<double>(count), 1e-12);
        EXPECT_NEAR(one.inside, inside / static_cast<double>(count), 1e-12);
      }
    }
    EXPECT_TRUE(std::isnan(pair_rotations(view(keys), model, 2, 2.0)[0].before));
  }
  EXPECT_THROW(pair_rotations(view(random_rows(4, 10, 1)), rotary_model(10, RopePairing::half), 0),
               std::invalid_argument);
  ModelInfo plain = rotary_model(10, RopePairing::half);
  plain.rope_theta = 0.0;
  EXPECT_THROW(pair_rotations(view(random_rows(4, 10, 1)), plain, 1), WorkError);
}

}  // namespace
}  // namespace kvloupe
