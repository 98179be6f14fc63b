// What replays of one trace share while their caches are whole: the same decisions, to the last
// bit, as replays alone, and no second computation.

#include "analysis/policy/kit/shared_prefix.h"
#include "analysis/math/numeric/float_rows.h"
#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/policy/kit/value_out_norms.h"
#include "tests/support/random_matrix.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

struct SharedPrefixTest : testing::TestWithParam<int>, test::MadeTrace {  // the model's window
  SharedPrefixTest()
      : MadeTrace({.prompt_length = 72,
                   .generated = 3,
                   .block = 16,
                   .sliding_window = GetParam(),
                   .clusters = 6}) {}
  Replay run(const std::string& spec, int budget, int block, SharedPrefix* prefix) {
    return MadeTrace::run(
        spec, budget,
        {.block = block, .metrics = false, .scores_layer = 1, .scores_head = 1, .prefix = prefix});
  }
};

TEST_P(SharedPrefixTest, ReplaysDecideAsTheyDoAlone) {
  SharedPrefix prefix(std::size_t{1} << 24U);
  for (const char* spec :
       {"h2o", "h2o+caote", "h2o+critical", "snapkv(8)+critical", "tova+critical(norm=l2)",
        "h2o+critical+kvmerger(0.2,recent=0,heavy=0)", "h2o+critical+cam"}) {
    for (const int budget : {12, 20, 50}) {
      for (const int block : {8, 16, kWholePrompt}) {
        const Replay alone = run(spec, budget, block, nullptr);
        const Replay shared = run(spec, budget, block, &prefix);
        const std::string where = std::string(spec) + ", N = " + std::to_string(budget) +
                                  ", B = " + std::to_string(block);
        test::expect_same_sets(alone, shared, where);
        EXPECT_EQ(alone.find(1, 1)->scores, shared.find(1, 1)->scores) << where;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, SharedPrefixTest, testing::Values(0, 24));

TEST(SharedPrefixSums, AreComputedOnceAndOnlyAsLongAsThereIsRoom) {
  int computed = 0;
  const auto compute = [&] {
    ++computed;
    return std::vector<float>(100, 0.5F);
  };
  SharedPrefix prefix(1000);
  const Block block{90, 100};
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(prefix.column_sums(1, 2, block, compute).size(), 100U);
  }
  EXPECT_EQ(computed, 1);
  prefix.column_sums(1, 3, block, compute);
  prefix.column_sums(1, 2, {80, 100}, compute);
  EXPECT_EQ(computed, 3) << "another head, another block";
  prefix.column_sums(1, 2, {80, 100}, compute);
  EXPECT_EQ(computed, 4) << "there was no room for the third";
}

TEST(SharedPrefixNorms, AreThoseOfTheTokensAndTheKind) {
  SharedPrefix prefix(1000);
  const std::vector<float> some{0.25F, 0.5F};
  prefix.keep_norms({0, 1, Norm::l1}, {3, 5}, some);
  EXPECT_EQ(prefix.norms({0, 1, Norm::l1}, {3, 5}), some);
  EXPECT_TRUE(prefix.norms({0, 1, Norm::l2}, {3, 5}).empty()) << "of another norm";
  EXPECT_TRUE(prefix.norms({0, 1, Norm::l1}, {3, 6}).empty()) << "of other tokens";
  EXPECT_TRUE(prefix.norms({1, 1, Norm::l1}, {3, 5}).empty()) << "of another layer";
}

/// Norms of the values from row `first` on, asked for at once, in a context that shares nothing.
std::vector<float> norms_from(const Matrix& values, const std::vector<OutputWeight>& weights,
                              Eigen::Index first) {
  LayerContext context;
  context.model.num_heads = 2;
  context.model.num_kv_heads = 1;
  context.model.head_dim = static_cast<int>(values.cols());
  context.output_weights = weights;
  ValueOutNorms norms(context, Norm::l1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(values.rows() - first));
  std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(first));
  StepView step;
  const MatrixView own = rows(view(values), first, values.rows() - first);
  step.caches.push_back({tokens, own, own, {}});
  return norms.of(step, 0);
}

TEST(SharedPrefixNorms, ATileHasTheSameBitsWhateverComesBeforeIt) {
  // Else what a replay takes from another would differ from what it computes.
  const Matrix values = test::random_matrix(200, 64, 5);
  const std::vector<OutputWeight> weights{OutputWeight(test::random_matrix(64, 576, 6)),
                                          OutputWeight(test::random_matrix(64, 576, 7))};
  const std::vector<float> all = norms_from(values, weights, 0);
  for (const Eigen::Index first : {64, 128}) {
    const std::vector<float> some = norms_from(values, weights, first);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + first)) << first;
  }
}

TEST(FloatRows, ManyRowsAddUpAsOneAfterTheOther) {
  for (const Eigen::Index d : {1, 31, 32, 64, 80, 128}) {
    const Matrix values = test::random_matrix(50, d, 11);
    const std::vector<std::int32_t> which{0, 3, 4, 4, 17, 49};
    const std::vector<double> factors{0.5, -1.25, 1e-9, 3.0, 0.0, 0.1};
    Eigen::VectorXd one = Eigen::VectorXd::LinSpaced(d, -1.0, 1.0), many = one;
    for (std::size_t j = 0; j < which.size(); ++j) {
      add_row(one.data(), values.row(which[j]).data(), factors[j], static_cast<std::size_t>(d));
    }
    add_rows(many.data(), values.data(), values.outerStride(), which, factors,
             static_cast<std::size_t>(d));
    EXPECT_EQ(one, many) << d;
    const double distance =
        squared_distance(one.data(), values.row(3).data(), static_cast<std::size_t>(d));
    EXPECT_NEAR(distance, (one - values.row(3).cast<double>().transpose()).squaredNorm(),
                1e-12 * distance);
  }
}

}  // namespace
}  // namespace kvloupe
