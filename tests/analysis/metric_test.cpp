// Each metric against a naive double-precision twin that reads like its formula.

#include "analysis/math/attention.h"
#include "analysis/math/attention_map.h"
#include "analysis/math/diversity.h"
#include "analysis/math/norms.h"
#include "analysis/math/numeric/exponentials.h"
#include "analysis/math/pca.h"
#include "analysis/math/perturbation.h"
#include "analysis/math/rope.h"
#include "analysis/math/rope_scaling.h"
#include "analysis/math/similarity_map.h"
#include "analysis/math/sink.h"
#include "tests/naive/decompositions.h"
#include "tests/support/edited_trace.h"
#include "tests/support/random_matrix.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::random_matrix;
using Naive = Eigen::MatrixXd;

constexpr double kMasked = -std::numeric_limits<double>::infinity();

/// Logits [m,n] of the last m of n entries; −infinity where a query does not see a key: one that
/// comes after it, or that lies `window` entries or more before it.
Naive naive_logits(const Matrix& q, const Matrix& k, double scale, int window = 0) {
  Naive logits(q.rows(), k.rows());
  for (int r = 0; r < q.rows(); ++r) {
    for (int i = 0; i < k.rows(); ++i) {
      double dot = 0;
      for (int j = 0; j < q.cols(); ++j) dot += double(q(r, j)) * double(k(i, j));
      const auto distance = k.rows() - q.rows() + r - i;
      const bool seen = distance >= 0 && (window == 0 || distance < window);
      logits(r, i) = seen ? dot * scale : kMasked;
    }
  }
  return logits;
}

Naive naive_attention(const Matrix& q, const Matrix& k, double scale, int window = 0) {
  Naive a = naive_logits(q, k, scale, window);
  for (int r = 0; r < a.rows(); ++r) {
    a.row(r) = (a.row(r).array() - a.row(r).maxCoeff()).exp();
    a.row(r) /= a.row(r).sum();
  }
  return a;
}

double largest_difference(const Matrix& a, const Naive& b) {
  return (a.cast<double>() - b).cwiseAbs().maxCoeff();
}

TEST(Attention, RowsEqualTheFormulaForABlockOfAnyPlace) {
  const Matrix k = random_matrix(70, 12, 1) * 2.0F;
  for (const int window : {0, 1, 2, 9, 69, 70, 1000}) {
    for (const int m : {1, 7, 70}) {
      const Matrix q = random_matrix(m, 12, 2);
      const Matrix rows = attention_rows(view(q), view(k), 0.4F, window);
      EXPECT_LT(largest_difference(rows, naive_attention(q, k, 0.4F, window)), 1e-6);
      for (int r = 0; r < m; ++r) {
        EXPECT_NEAR(rows.row(r).sum(), 1.0, 1e-6);
        for (int i = 70 - m + r + 1; i < 70; ++i) EXPECT_EQ(rows(r, i), 0.0F);
        for (int i = 0; window > 0 && i <= 70 - m + r - window; ++i) EXPECT_EQ(rows(r, i), 0.0F);
      }
    }
  }
}

TEST(Attention, ALogSizeCountsLikeSoManyEqualEntries) {
  Matrix k = random_matrix(9, 4, 3);
  for (int i = 1; i < 4; ++i) k.row(i) = k.row(0);
  const Matrix q = random_matrix(1, 4, 4);
  const Matrix full = attention_rows(view(q), view(k), 0.5F, 0);
  const Matrix merged_keys = k.bottomRows(6);  // the last of the equal four, and the others
  std::vector<float> log_sizes(6, 0.0F);
  log_sizes[0] = std::log(4.0F);
  const Matrix merged = attention_rows(view(q), view(merged_keys), 0.5F, 0, log_sizes);
  EXPECT_NEAR(merged(0, 0), 4 * full(0, 0), 1e-6);
  EXPECT_NEAR(merged(0, 5), full(0, 8), 1e-6);
}

TEST(Attention, LogSumExpAndColumnSumsEqualTheFormulaAcrossTiles) {
  const Matrix q = random_matrix(300, 8, 5), k = random_matrix(340, 8, 6);
  for (const int window : {0, 1, 5, 128, 200, 339, 340}) {
    SCOPED_TRACE(window);
    const Naive logits = naive_logits(q, k, 1.0, window);
    const Naive attention = naive_attention(q, k, 1.0, window);
    const auto logsumexp = attention_logsumexp(view(q), view(k), 1.0F, window, test::unwatched);
    const auto sums = attention_column_sums(view(q), view(k), 1.0F, window, test::unwatched);
    for (int r = 0; r < 300; ++r) {
      const double largest = logits.row(r).maxCoeff();
      const double expected = largest + std::log((logits.row(r).array() - largest).exp().sum());
      EXPECT_NEAR(logsumexp[r], expected, 1e-5);
    }
    for (int i = 0; i < 340; ++i) EXPECT_NEAR(sums[i], attention.col(i).sum(), 1e-4);
    EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), 300.0, 1e-3);
  }
}

TEST(Attention, ReceivedAttentionDividesByTheQueriesThatSee) {
  const Matrix q = random_matrix(40, 8, 7), k = random_matrix(40, 8, 8);
  for (const int window : {0, 1, 12, 40}) {
    const auto received = received_attention(view(q), view(k), 1.0F, window, test::unwatched);
    const Naive attention = naive_attention(q, k, 1.0, window);
    for (int i = 0; i < 40; ++i) {
      int see = 0;
      for (int t = i; t < 40; ++t) see += window == 0 || t - i < window ? 1 : 0;
      EXPECT_NEAR(received[i], attention.col(i).sum() / see, 1e-5);
    }
  }
}

TEST(Attention, AStoredLogSumExpIsUsedOnlyWhereItFitsTheStates) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  write_synthetic_trace(folder / "good.h5", options);
  write_synthetic_trace(folder / "wrong.h5", options);
  options.logsumexp = false;
  write_synthetic_trace(folder / "none.h5", options);
  const std::vector<float> wrong(4 * 104, 1.0F);
  test::EditedTrace(folder / "wrong.h5")
      .write("/layers/1/attention_logsumexp", H5T_NATIVE_FLOAT, wrong.data());
  const std::vector<float> computed =
      attention_logsumexp(Trace(folder / "none.h5"), 1, 2, test::unwatched);
  for (const char* name : {"good.h5", "wrong.h5"}) {
    const std::vector<float> result =
        attention_logsumexp(Trace(folder / name), 1, 2, test::unwatched);
    for (std::size_t i = 0; i < result.size(); ++i) EXPECT_NEAR(result[i], computed[i], 1e-5);
  }
}

TEST(Attention, AWindowAsLongAsTheTraceChangesNoBit) {
  const Matrix q = random_matrix(150, 8, 5), k = random_matrix(150, 8, 6);
  for (const int window : {150, 151, 100000}) {
    EXPECT_EQ(attention_rows(view(q), view(k), 0.3F, window),
              attention_rows(view(q), view(k), 0.3F, 0));
    EXPECT_EQ(attention_logsumexp(view(q), view(k), 0.3F, window, test::unwatched),
              attention_logsumexp(view(q), view(k), 0.3F, 0, test::unwatched));
    EXPECT_EQ(received_attention(view(q), view(k), 0.3F, window, test::unwatched),
              received_attention(view(q), view(k), 0.3F, 0, test::unwatched));
  }
}

TEST(Attention, AWindowThatHidesNothingOfATraceIsNone) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  for (const int window : {0, 1, 50, 103, 104, 500}) {
    options.sliding_window = window;
    write_synthetic_trace(folder / "t.h5", options);
    const Trace trace(folder / "t.h5");
    EXPECT_EQ(trace.model().sliding_window, window);
    EXPECT_EQ(trace.window(0), window < 104 ? window : 0);
  }
}

TEST(Attention, TheStoredLogSumExpOfAWindowedTraceIsUsed) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options{.sliding_window = 13};
  write_synthetic_trace(folder / "stored.h5", options);
  options.logsumexp = false;
  write_synthetic_trace(folder / "computed.h5", options);
  const Trace stored(folder / "stored.h5");
  EXPECT_EQ(attention_logsumexp(stored, 1, 2, test::unwatched), stored.attention_logsumexp(1, 2));
  const auto computed = attention_logsumexp(Trace(folder / "computed.h5"), 1, 2, test::unwatched);
  for (int i = 0; i < 104; ++i) EXPECT_NEAR(stored.attention_logsumexp(1, 2)[i], computed[i], 1e-5);
}

class AttentionMapOfAWindow : public testing::TestWithParam<int> {};

TEST_P(AttentionMapOfAWindow, PoolsExactlyTheVisibleCells) {
  const int seen = GetParam();
  const Matrix q = random_matrix(200, 8, 9), k = random_matrix(200, 8, 10) * 1.5F;
  const float scale = 0.7F;
  const std::vector<float> logsumexp =
      attention_logsumexp(view(q), view(k), scale, seen, test::unwatched);
  const Naive logits = naive_logits(q, k, scale, seen);
  const Naive attention = naive_attention(q, k, scale, seen);
  const AttentionWindow windows[] = {{0, 200, 0, 200, 30, 41}, {0, 200, 0, 200, 200, 200},
                                     {150, 200, 0, 13, 7, 3},  {20, 23, 18, 24, 9, 12},
                                     {0, 50, 100, 200, 5, 5},  {0, 200, 0, 200, 1, 1}};
  for (AttentionWindow window : windows) {
    for (const Pooling pooling : {Pooling::max, Pooling::mean}) {
      for (const AttentionUnit unit : {AttentionUnit::probability, AttentionUnit::logit}) {
        window.pooling = pooling, window.unit = unit, window.seen = seen;
        const Matrix map =
            attention_map(view(q), view(k), scale, logsumexp, window, test::unwatched);
        const Naive& cells = unit == AttentionUnit::logit ? logits : attention;
        const int rows = window.query_end - window.query_first;
        const int columns = window.key_end - window.key_first;
        for (const auto& [y, x] : test::cells(window.height, window.width)) {
          const int r0 = y * rows / window.height, c0 = x * columns / window.width;
          const int r1 = std::max(r0 + 1, (y + 1) * rows / window.height);
          const int c1 = std::max(c0 + 1, (x + 1) * columns / window.width);
          double sum = 0, largest = kMasked;
          int count = 0;
          for (int r = window.query_first + r0; r < window.query_first + r1; ++r) {
            for (int c = window.key_first + c0; c < window.key_first + c1; ++c) {
              if (c > r || (seen > 0 && c <= r - seen)) continue;
              sum += cells(r, c), largest = std::max(largest, cells(r, c)), ++count;
            }
          }
          if (count == 0) {
            EXPECT_TRUE(std::isnan(map(y, x)));
          } else {
            ASSERT_NEAR(map(y, x), pooling == Pooling::max ? largest : sum / count, 1e-5)
                << y << "," << x;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, AttentionMapOfAWindow, testing::Values(0, 1, 3, 37, 150, 200));

TEST(AttentionMap, StopsWhenCancelledAndRefusesWindowsOutside) {
  const Matrix q = random_matrix(20, 4, 11);
  const std::vector<float> logsumexp(20, 0.0F);
  Progress progress;
  EXPECT_THROW(attention_map(view(q), view(q), 1, logsumexp, {0, 21, 0, 20, 5, 5}, progress),
               std::invalid_argument);
  EXPECT_THROW(attention_map(view(q), view(q), 1, logsumexp, {0, 20, 5, 5, 5, 5}, progress),
               std::invalid_argument);
  progress.cancel();
  EXPECT_THROW(attention_map(view(q), view(q), 1, logsumexp, {0, 20, 0, 20, 5, 5}, progress),
               Cancelled);
}

/// Mean cosine over [r0,r1)×[c0,c1), cells weighted by the share of them inside.
double naive_similarity(const Matrix& k, double r0, double r1, double c0, double c1) {
  double sum = 0;
  for (int i = 0; i < k.rows(); ++i) {
    for (int j = 0; j < k.rows(); ++j) {
      const double height = std::min<double>(i + 1, r1) - std::max<double>(i, r0);
      const double width = std::min<double>(j + 1, c1) - std::max<double>(j, c0);
      if (height <= 0 || width <= 0) continue;
      const Eigen::VectorXd a = k.row(i).cast<double>(), b = k.row(j).cast<double>();
      const double norms = a.norm() * b.norm();
      sum += height * width * (norms > 0 ? a.dot(b) / norms : 0.0);
    }
  }
  return sum / ((r1 - r0) * (c1 - c0));
}

TEST(SimilarityMap, AnyWindowIsTheMeanCosineOfItsTiles) {
  Matrix k = random_matrix(50, 6, 12);
  k.row(7).setZero();
  const SimilarityMap similarity(view(k));
  const SimilarityWindow windows[] = {{0, 50, 0, 50, 50, 50},
                                      {0, 50, 0, 50, 7, 13},
                                      {3.25, 41.5, 10.75, 11.0, 9, 4},
                                      {6.9, 8.2, 49.9, 50, 5, 2}};
  for (const SimilarityWindow& w : windows) {
    const Matrix map = similarity.map(w);
    const double dy = (w.row_end - w.row_first) / w.height;
    const double dx = (w.column_end - w.column_first) / w.width;
    for (const auto& [y, x] : test::cells(w.height, w.width)) {
      ASSERT_NEAR(map(y, x),
                  naive_similarity(k, w.row_first + y * dy, w.row_first + (y + 1) * dy,
                                   w.column_first + x * dx, w.column_first + (x + 1) * dx),
                  1e-6);
    }
  }
  EXPECT_THROW(similarity.map({0, 50.1, 0, 50, 3, 3}), std::invalid_argument);
  EXPECT_THROW(similarity.map({4, 4, 0, 50, 3, 3}), std::invalid_argument);
}

TEST(PrincipalComponents, VarianceOfTheProjectionIsTheLargestThereIs) {
  Matrix k = random_matrix(400, 10, 13);
  k.col(3) *= 9.0F;
  k.col(6) *= 5.0F;
  k.rowwise() += random_matrix(1, 10, 14).row(0) * 20.0F;
  const PrincipalComponents pca = fit_principal_components(view(k));
  EXPECT_LT((pca.basis * pca.basis.transpose() - Matrix::Identity(2, 2)).cwiseAbs().maxCoeff(),
            1e-6);
  const Naive x = k.cast<double>();
  const Naive centred = x.rowwise() - x.colwise().mean();
  const Eigen::VectorXd variance = naive::singular_values(centred).cwiseAbs2();
  const Matrix projected = pca.project(view(k));
  for (int c = 0; c < 2; ++c) {
    EXPECT_NEAR(projected.col(c).cast<double>().squaredNorm(), variance[c], 1e-4 * variance[c]);
    EXPECT_NEAR(pca.explained[c], variance[c] / variance.sum(), 1e-9);
    int at = 0;
    pca.basis.row(c).cwiseAbs().maxCoeff(&at);
    EXPECT_GT(pca.basis(c, at), 0.0F);
  }
}

TEST(PrincipalComponents, DegenerateKeysGiveNumbers) {
  const Matrix same = Matrix::Constant(5, 4, 2.0F), narrow = random_matrix(5, 1, 15);
  EXPECT_EQ(fit_principal_components(view(same)).explained.sum(), 0.0);
  EXPECT_TRUE(fit_principal_components(view(same)).project(view(same)).allFinite());
  const PrincipalComponents one = fit_principal_components(view(narrow));
  EXPECT_NEAR(one.explained[0], 1.0, 1e-12);
  EXPECT_EQ(one.project(view(narrow)).col(1).cwiseAbs().sum(), 0.0F);
}

TEST(UndoRope, TakesBackTheRotationOfEitherPairing) {
  ModelInfo model{.head_dim = 8, .rope_scaling = "null"};
  const Matrix original = random_matrix(30, 8, 16);
  for (const RopePairing pairing : {RopePairing::half, RopePairing::interleaved}) {
    model.rope_pairing = pairing;
    Matrix rotated(30, 8);
    for (const auto& [i, j] : test::cells(30, 4)) {
      const int a = pairing == RopePairing::half ? j : 2 * j;
      const int b = pairing == RopePairing::half ? j + 4 : 2 * j + 1;
      const double angle = (5 + i) / std::pow(10000.0, 2.0 * j / 8);
      rotated(i, a) = float(original(i, a) * std::cos(angle) - original(i, b) * std::sin(angle));
      rotated(i, b) = float(original(i, a) * std::sin(angle) + original(i, b) * std::cos(angle));
    }
    EXPECT_LT((undo_rope(view(rotated), model, 5) - original).cwiseAbs().maxCoeff(), 1e-5F);
  }
}

TEST(UndoRope, KnowsLinearAndLlama3Scaling) {
  ModelInfo model{.head_dim = 64,
                  .rope_theta = 500000.0,
                  .rope_scaling = R"({"type": "linear", "factor": 4.0})"};
  for (std::size_t j = 0; j < 32; ++j) {
    EXPECT_NEAR(Rope(model).pair(j).frequency, std::pow(5e5, -2.0 * double(j) / 64) / 4, 1e-15);
  }
  // Llama 3.2's own numbers. By wavelength: short ones stay, long ones are divided by 32.
  model.rope_scaling =
      R"({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192})";
  const Rope rope(model);
  int kept = 0, blended = 0, divided = 0;
  for (std::size_t j = 0; j < rope.pairs(); ++j) {
    const double plain = std::pow(5e5, -2.0 * double(j) / 64), wavelength = 2 * M_PI / plain;
    double expected = plain;
    if (wavelength > 8192.0) {
      expected = plain / 32;
      ++divided;
    } else if (wavelength >= 2048.0) {
      const double smooth = (8192.0 / wavelength - 1) / (4 - 1);
      expected = (1 - smooth) * plain / 32 + smooth * plain;
      ++blended;
    } else {
      ++kept;
    }
    EXPECT_NEAR(rope.pair(j).frequency / expected, 1.0, 1e-12) << j;
  }
  EXPECT_GT(kept, 10);
  EXPECT_GT(blended, 1);
  EXPECT_GT(divided, 10);
  for (const RopeScaling& scaling :
       {RopeScaling(), parse_rope_scaling(model.rope_scaling),
        parse_rope_scaling(R"({"type": "linear", "factor": 4})"),
        parse_rope_scaling(R"({"type": "yarn", "factor": 3, "beta_fast": 20, "truncate": false})",
                           4096.0)}) {
    EXPECT_EQ(parse_rope_scaling(rope_scaling_json(scaling)), scaling);
  }
}

TEST(UndoRope, KnowsYarn) {
  // Qwen 2.5's own numbers: d = 128, theta 10^6, 4 times 32 768 positions. Pairs that make more
  // than 32 turns in those stay, those that make less than one are divided, both to whole pairs.
  ModelInfo model{.head_dim = 128, .rope_theta = 1e6};
  model.rope_scaling =
      R"({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768})";
  const Rope rope(model);
  const auto turns = [](double pair) { return 32768.0 / (2 * M_PI) * std::pow(1e6, -pair / 64); };
  int first = 0, last = 0;  // whole pairs around those that make 32 and 1 turns
  while (turns(first + 1) > 32) ++first;
  while (turns(last) > 1) ++last;
  EXPECT_EQ(first, 23);
  EXPECT_EQ(last, 40);
  for (int j = 0; j < 64; ++j) {
    const double plain = std::pow(1e6, -j / 64.0);
    const double gone = j <= first ? 0.0 : j >= last ? 1.0 : double(j - first) / (last - first);
    EXPECT_NEAR(rope.pair(std::size_t(j)).frequency / (plain * (1 - gone) + plain / 4 * gone), 1.0,
                1e-12)
        << j;
  }
  EXPECT_NEAR(rope_stretch(parse_rope_scaling(model.rope_scaling)), 1.138629436, 1e-9);
  EXPECT_EQ(rope_stretch(RopeScaling()), 1.0);
  // A rotation turned back leaves the stretched key.
  Matrix keys = random_matrix(2, 128, 3);
  const Matrix before = keys;
  for (int row = 0; row < 2; ++row) rope.turn(std::span(keys.row(row).data(), 128), 7 + row);
  EXPECT_LT((undo_rope(view(keys), model, 7) - before).cwiseAbs().maxCoeff(), 1e-5F);
}

TEST(UndoRope, RefusesWhatItCannotUndoByName) {
  ModelInfo model{.head_dim = 8, .rope_scaling = R"({"rope_type": "longrope", "factor": 8})"};
  const Matrix keys = random_matrix(3, 8, 17);
  EXPECT_THAT(test::error_of<WorkError>([&] { undo_rope(view(keys), model); }),
              HasSubstr("longrope"));
  model.rope_scaling = "null";
  model.rope_theta = 0.0;
  EXPECT_THROW(undo_rope(view(keys), model), WorkError);
}

TEST(Sink, StrengthIsTheMeanAttentionOfLaterQueriesThatSeeTheToken) {
  const test::TemporaryFolder folder;
  for (const int window : {1, 2, 20, 103, 104}) {
    test::SyntheticTraceOptions options{.sliding_window = window};
    const test::SyntheticStates states = test::write_synthetic_trace(folder / "w.h5", options);
    const Trace trace(folder / "w.h5");
    for (const int token : {0, 60, 99}) {
      const Naive a = naive_attention(states.query[1][3], states.key[1][1], 0.25, window);
      double sum = 0;
      int count = 0;
      for (int q = token + 1; q < 104 && q - token < window; ++q) sum += a(q, token), ++count;
      EXPECT_NEAR(sink_strength(trace, 1, 3, token, test::unwatched), count > 0 ? sum / count : 0,
                  1e-5)
          << window << " " << token;
    }
  }
}

TEST(Sink, StrengthIsTheMeanAttentionOfLaterQueries) {
  test::MadeTrace made_trace;
  const Trace& trace = made_trace.trace();
  const test::SyntheticStates& states = made_trace.states_;
  Progress progress;
  for (const int token : {0, 5, 102, 103}) {
    const Matrix strengths = sink_strengths(trace, token, progress);
    for (const auto& [layer, head] : test::cells(2, 4)) {
      const Naive a = naive_attention(states.query[layer][head], states.key[layer][head / 2], 0.25);
      double sum = 0;
      for (int q = token + 1; q < 104; ++q) sum += a(q, token);
      EXPECT_NEAR(strengths(layer, head), token == 103 ? 0.0 : sum / (103 - token), 1e-5);
    }
    if (token == 0) {
      EXPECT_GT(strengths.minCoeff(), kSinkHead);
    } else {
      EXPECT_LT(strengths.maxCoeff(), kSinkHead);
    }
  }
  EXPECT_THROW(sink_strengths(trace, 104, progress), UsageError);
  progress.cancel();
  EXPECT_THROW(sink_strengths(trace, 0, progress), Cancelled);
}

TEST(LogDeterminant, EqualsTheDeterminantWhereThatExists) {
  for (const int n : {3, 8, 40}) {
    const Matrix k = random_matrix(n, 8, 18 + unsigned(n));
    const Naive x = k.cast<double>();
    const Naive gram = n < 8 ? Naive(x * x.transpose()) : Naive(x.transpose() * x);
    const LogDeterminant result = log_pseudo_determinant(view(k));
    EXPECT_EQ(result.rank, std::min(n, 8));
    EXPECT_NEAR(result.value, std::log(naive::determinant(gram)),
                1e-9 * (1 + std::abs(result.value)));
  }
}

TEST(LogDeterminant, RepeatedRowsDoNotRaiseTheRank) {
  const Matrix base = random_matrix(3, 16, 40);
  Matrix k(12, 16);
  for (int i = 0; i < 12; ++i) k.row(i) = base.row(i % 3);
  const LogDeterminant result = log_pseudo_determinant(view(k));
  EXPECT_EQ(result.rank, 3);
  // Four copies of each row: every eigenvalue four times as large.
  EXPECT_NEAR(result.value, log_pseudo_determinant(view(base)).value + 3 * std::log(4.0), 1e-9);
  const Matrix zero = Matrix::Zero(5, 4), nothing(0, 4);
  EXPECT_EQ(log_pseudo_determinant(view(zero)).rank, 0);
  EXPECT_EQ(log_pseudo_determinant(view(zero)).value, 0.0);
  EXPECT_EQ(log_pseudo_determinant(view(nothing)).rank, 0);
}

/// CriticalKV §3 as it is written, in double.
struct NaivePerturbation {
  double mass = 0, loss_l1 = 0, bound_l1 = 0, loss_l2 = 0, bound_l2 = 0, head = 0;
  NaivePerturbation(const std::vector<float>& logits, const std::vector<std::int32_t>& kept,
                    const Matrix& values, const Matrix& weight) {
    const auto n = static_cast<Eigen::Index>(logits.size());
    Eigen::RowVectorXd a(n), selected = Eigen::RowVectorXd::Zero(n);
    for (Eigen::Index i = 0; i < n; ++i) a[i] = std::exp(double(logits[size_t(i)]));
    a /= a.sum();
    for (const int i : kept) selected[i] = 1;
    const Eigen::RowVectorXd product = a.cwiseProduct(selected);
    mass = product.sum();
    const Eigen::RowVectorXd renormalised = product / mass;  // theorem 3.2
    const Naive projected = values.cast<double>() * weight.cast<double>();
    const Eigen::RowVectorXd difference = (a - renormalised) * projected;
    loss_l1 = difference.lpNorm<1>();
    loss_l2 = difference.norm();
    head = ((a - renormalised) * values.cast<double>()).norm();
    for (Eigen::Index i = 0; i < n; ++i) {
      const double l1 = projected.row(i).lpNorm<1>(), l2 = projected.row(i).norm();
      bound_l1 += a[i] * l1 - (2 - 1 / mass) * product[i] * l1;
      bound_l2 += a[i] * l2 - (2 - 1 / mass) * product[i] * l2;
    }
  }
};

TEST(Perturbation, EqualsTheFormulaAndStaysBelowItsBound) {
  std::mt19937 random(21);
  for (int round = 0; round < 60; ++round) {
    const int n = 5 + int(random() % 60);
    const Matrix values = random_matrix(n, 6, random()), weight = random_matrix(6, 9, random());
    const Matrix q = random_matrix(1, 6, random()), k = random_matrix(n, 6, random()) * 2.0F;
    const std::vector<float> logits = attention_logits({q.data(), 6}, view(k), 1.0F);
    std::vector<std::int32_t> kept;
    for (int i = 0; i < n; ++i) {
      if (random() % 3 == 0) kept.push_back(i);
    }
    if (kept.empty()) kept.push_back(n - 1);
    const OutputWeight stored(weight);
    const Matrix projected = values * weight;
    std::vector<float> l1, l2;
    for (int i = 0; i < n; ++i) {
      l1.push_back(projected.row(i).lpNorm<1>());
      l2.push_back(projected.row(i).norm());
    }
    const QueryHeadMetrics fast = output_perturbation(logits, kept, view(values), &stored, l1, l2);
    const NaivePerturbation naive(logits, kept, values, weight);
    const auto close = [](double a, double b) {
      return std::abs(a - b) <= 1e-5 * (1 + std::abs(b));
    };
    EXPECT_PRED2(close, fast.retained_mass, naive.mass);
    EXPECT_PRED2(close, fast.perturbation_l1, naive.loss_l1);
    EXPECT_PRED2(close, fast.perturbation_l2, naive.loss_l2);
    EXPECT_PRED2(close, fast.head_error_l2, naive.head);
    EXPECT_PRED2(close, fast.bound_l1, naive.bound_l1);
    EXPECT_PRED2(close, fast.bound_l2, naive.bound_l2);
    EXPECT_LE(fast.perturbation_l1, fast.bound_l1 * (1 + 1e-6) + 1e-6);
    EXPECT_LE(fast.perturbation_l2, fast.bound_l2 * (1 + 1e-6) + 1e-6);
  }
}

TEST(Perturbation, AKnownOutputChangesNothing) {
  std::mt19937 random(22);
  for (int round = 0; round < 40; ++round) {
    const Matrix values = random_matrix(60, 6, random()), weight = random_matrix(6, 9, random());
    const OutputWeight stored(weight);
    std::vector<float> logits(60);
    for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100.0F;
    // Sometimes nearly all attention stays, sometimes nearly none.
    if (round % 3 == 1) logits[0] = 30.0F;
    if (round % 3 == 2) logits[1] = 60.0F;
    const std::vector<std::int32_t> kept{0, 7, 8, 30, 59};
    const std::vector<double> attention = softmax(logits);
    const Eigen::VectorXd output =
        values.cast<double>().transpose() *
        Eigen::Map<const Eigen::VectorXd>(attention.data(), std::ssize(attention));
    const auto metrics = [&](std::span<const double> known) {
      return output_perturbation(logits, attention, kept, view(values), &stored, {}, {},
                                 LogitRule::kNoSink, known);
    };
    const QueryHeadMetrics one = metrics({});
    const QueryHeadMetrics two = metrics({output.data(), static_cast<std::size_t>(output.size())});
    EXPECT_NEAR(two.head_error_l2, one.head_error_l2, 1e-9 * one.head_error_l2);
    EXPECT_NEAR(two.perturbation_l1, one.perturbation_l1, 1e-9 * one.perturbation_l1);
    EXPECT_EQ(two.retained_mass, one.retained_mass);
  }
}

TEST(Perturbation, KeepingAllLosesNothingAndMissingWeightsAreNotNumbers) {
  const Matrix values = random_matrix(20, 4, 30), weight = random_matrix(4, 5, 31);
  const OutputWeight stored(weight);
  const std::vector<float> logits(20, 0.3F);
  std::vector<std::int32_t> all(20);
  std::iota(all.begin(), all.end(), 0);
  const QueryHeadMetrics whole = output_perturbation(logits, all, view(values), &stored, {}, {});
  EXPECT_NEAR(whole.retained_mass, 1.0, 1e-12);
  EXPECT_LT(whole.perturbation_l1, 1e-12);
  EXPECT_TRUE(std::isnan(whole.bound_l1));
  const QueryHeadMetrics bare = output_perturbation(logits, all, view(values), nullptr, {}, {});
  EXPECT_TRUE(std::isnan(bare.perturbation_l2));
  EXPECT_LT(bare.head_error_l2, 1e-12);
}

TEST(Perturbation, StaysExactWhereAlmostAllMassIsEvicted) {
  // Token 0 is a sink that leaves e^-120 to the others: float32 rows would be zero there.
  const Matrix values = random_matrix(4, 3, 32);
  const OutputWeight stored(Matrix(Matrix::Identity(3, 3)));
  const std::vector<float> logits{120.0F, 0.0F, 1.0F, 2.0F};
  const std::vector<std::int32_t> kept{1, 2, 3};
  const QueryHeadMetrics fast = output_perturbation(logits, kept, view(values), &stored, {}, {});
  const double z = 1 + std::exp(1.0) + std::exp(2.0);
  const Eigen::RowVectorXd expected =
      values.row(0).cast<double>() -
      (values.row(1).cast<double>() + std::exp(1.0) * values.row(2).cast<double>() +
       std::exp(2.0) * values.row(3).cast<double>()) /
          z;
  EXPECT_NEAR(fast.head_error_l2, expected.norm(), 1e-6);
  EXPECT_NEAR(fast.retained_mass / (z * std::exp(-120.0)), 1.0, 1e-6);
}

TEST(Exponentials, AreAccurateAndSumUp) {
  for (const int count : {0, 1, 15, 16, 17, 511, 1300}) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) values[size_t(i)] = 3.0F - 86.9F * float(i) / 1300.0F;
    const std::vector<float> before = values;
    const double sum = exponentials(values, 3.0F);
    double expected = 0;
    for (int i = 0; i < count; ++i) {
      const double exact = std::exp(double(before[size_t(i)] - 3.0F));
      ASSERT_NEAR(values[size_t(i)] / exact, 1.0, 3e-7) << before[size_t(i)];
      expected += exact;
    }
    EXPECT_NEAR(sum, expected, 1e-6 * (1 + expected));
  }
  std::vector<float> edges{0.0F, -87.7F, -1e30F, -std::numeric_limits<float>::infinity()};
  exponentials(edges, 0.0F);
  EXPECT_THAT(edges, ElementsAre(1.0F, 0.0F, 0.0F, 0.0F));
}

TEST(Norms, MedianIsTheMiddle) {
  EXPECT_EQ(median(std::vector<float>{3, 1, 2}), 2.0F);
  EXPECT_EQ(median(std::vector<float>{4, 1, 2, 3}), 2.5F);
  EXPECT_TRUE(std::isnan(median({})));
  const Matrix m = random_matrix(5, 3, 33);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(row_norms(view(m))[size_t(i)], m.row(i).norm(), 1e-6);
}

TEST(TurnedBack, IsTheRotationByMinusThePosition) {
  for (const RopePairing pairing : {RopePairing::half, RopePairing::interleaved}) {
    for (const int rotated : {0, 6}) {
      ModelInfo model{
          .head_dim = 10, .rope_theta = 10000.0, .rope_pairing = pairing, .rotary_dim = rotated};
      const Rope rope(model);
      const TurnedBack turned_back(rope);
      TurnedBack::Cursor cursor;
      const Eigen::MatrixXd states = test::random_matrix(1, 10, 3).cast<double>();
      for (const long position : {0L, 1L, 63L, 64L, 65L, 8191L, 70L, 1000003L}) {
        std::vector<double> expected(states.data(), states.data() + 10), found = expected;
        rope.turn(std::span(expected), -static_cast<double>(position));
        turned_back.turn(std::span(found), position, cursor);
        for (std::size_t c = 0; c < 10; ++c) EXPECT_NEAR(found[c], expected[c], 1e-9) << position;
      }
    }
  }
}

}  // namespace
}  // namespace kvloupe
