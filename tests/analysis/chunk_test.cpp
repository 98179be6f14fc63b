// Layers whose queries see the tokens of their own chunk: attention, what is made of it, and
// replays, in which all entries leave where a chunk ends. Sets and measures beside their naive
// twins: replay_naive_test, policy_combinations_test.

#include "analysis/math/attention.h"
#include "analysis/math/attention_map.h"
#include "analysis/math/distance_kernel.h"
#include "analysis/math/later_attention.h"
#include "analysis/math/rope.h"
#include "analysis/math/sink.h"
#include "analysis/trace/layer_kinds_text.h"
#include "tests/naive/naive_mask.h"
#include "tests/support/catalogue_parts.h"
#include "tests/support/random_matrix.h"
#include "tests/support/record_values.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::random_matrix;

constexpr int kChunkTokens = 70;

TEST(Reach, IsTheMaskOfTheFormula) {
  for (const int window : {0, 1, 9, 69, 70, 100}) {
    for (const int chunk : {0, 1, 16, 35, 69, 70, 100}) {
      if (window > 0 && chunk > 0) continue;
      ModelInfo model{.sliding_window = window,
                      .chunk_size = chunk,
                      .chunked_tokens = chunk > 0 ? kChunkTokens : 0};
      for (int token = 0; token < kChunkTokens; ++token) {
        int end = token;
        for (int query = 0; query < kChunkTokens; ++query) {
          const bool sees = query >= token && token >= first_seen(query, model.reach());
          ASSERT_EQ(sees, naive::sees(model, query, token)) << query << " " << token;
          if (sees) end = query + 1;
        }
        ASSERT_EQ(first_unseeing(token, model.reach(), kChunkTokens), end);
      }
      // After the sequence a window moves on; a chunk stays the last token's.
      const int last = kChunkTokens - 1;
      if (chunk > 0) {
        EXPECT_EQ(first_seen(kChunkTokens, model.reach()), last / chunk * chunk);
      }
      EXPECT_EQ(model.reach().span(), std::max(window, chunk));
    }
  }
}

struct OfChunks : testing::TestWithParam<int> {
  OfChunks() {
    model_.chunk_size = GetParam();
    model_.chunked_tokens = kChunkTokens;
    reach_ = model_.reach();
    for (int query = 0; query < kChunkTokens; ++query) {
      double sum = 0.0;
      for (int token = 0; token < kChunkTokens; ++token) {
        if (!naive::sees(model_, query, token)) continue;
        logits_(query, token) =
            kScale * queries_.row(query).cast<double>().dot(keys_.row(token).cast<double>());
        attention_(query, token) = std::exp(logits_(query, token));
        sum += attention_(query, token);
      }
      attention_.row(query) /= sum;
      logsumexp_.push_back(static_cast<float>(std::log(sum)));
    }
  }

  static constexpr double kScale = 0.4;
  ModelInfo model_;
  Reach reach_;
  Matrix queries_ = random_matrix(kChunkTokens, 12, 2);
  Matrix keys_ = random_matrix(kChunkTokens, 12, 1) * 2.0F;
  Eigen::MatrixXd logits_ = Eigen::MatrixXd::Zero(kChunkTokens, kChunkTokens);
  Eigen::MatrixXd attention_ = Eigen::MatrixXd::Zero(kChunkTokens, kChunkTokens);
  std::vector<float> logsumexp_;
};
INSTANTIATE_TEST_SUITE_P(Sizes, OfChunks, testing::Values(1, 5, 16, 35, 69));

TEST_P(OfChunks, AttentionAndWhatIsMadeOfItAreThoseOfTheMask) {
  const LogitRule rule(kScale);
  for (const int m : {1, 7, kChunkTokens}) {
    const Matrix result =
        attention_rows(rows(view(queries_), kChunkTokens - m, m), view(keys_), rule, reach_);
    EXPECT_LT((result.cast<double>() - attention_.bottomRows(m)).cwiseAbs().maxCoeff(), 1e-5);
  }
  const std::vector<float> sums =
      attention_logsumexp(view(queries_), view(keys_), rule, reach_, test::unwatched);
  const std::vector<double> entropy =
      attention_entropy(view(queries_), view(keys_), rule, reach_, test::unwatched);
  const std::vector<float> received =
      received_attention(view(queries_), view(keys_), rule, reach_, test::unwatched);
  std::vector<std::int32_t> some;
  for (int token = 0; token < 40; token += 3) some.push_back(token);
  const std::vector<double> later = later_attention(view(queries_), view(keys_), logsumexp_, some,
                                                    40, rule, reach_, test::unwatched);
  for (int token = 0; token < kChunkTokens; ++token) {
    EXPECT_NEAR(sums[token], logsumexp_[token], 1e-5);
    double of_row = 0.0, seeing = 0.0;
    for (int other = 0; other < kChunkTokens; ++other) {
      const double one = attention_(token, other);
      if (one > 0.0) of_row -= one * std::log(one);
      seeing += naive::sees(model_, other, token) ? 1.0 : 0.0;
    }
    EXPECT_NEAR(entropy[token], of_row, 1e-5);
    EXPECT_NEAR(received[token], attention_.col(token).sum() / seeing, 1e-5);
  }
  for (std::size_t i = 0; i < some.size(); ++i) {
    EXPECT_NEAR(later[i], attention_.col(some[i]).tail(kChunkTokens - 40).mean(), 1e-5);
  }
}

TEST_P(OfChunks, MapsLeaveOutWhatIsNotSeen) {
  AttentionWindow window;
  window.query_end = window.key_end = kChunkTokens;
  window.seen = reach_;
  for (const int pixels : {kChunkTokens, 10}) {
    window.width = window.height = pixels;
    for (const Pooling pooling : {Pooling::max, Pooling::mean}) {
      window.pooling = pooling;
      const Matrix map = attention_map(view(queries_), view(keys_), LogitRule(kScale), logsumexp_,
                                       window, test::unwatched);
      const int tile = kChunkTokens / pixels;
      for (const auto& [y, x] : test::cells(pixels, pixels)) {
        double sum = 0.0, largest = 0.0;
        int cells = 0;
        for (int query = y * tile; query < (y + 1) * tile; ++query) {
          for (int key = x * tile; key < (x + 1) * tile; ++key) {
            if (!naive::sees(model_, query, key)) continue;
            ++cells;
            sum += attention_(query, key);
            largest = std::max(largest, attention_(query, key));
          }
        }
        ASSERT_EQ(std::isnan(map(y, x)), cells == 0) << y << " " << x;
        if (cells == 0) continue;
        ASSERT_NEAR(map(y, x), pooling == Pooling::max ? largest : sum / cells, 1e-5);
      }
    }
  }
}

TEST_P(OfChunks, MeansByDistanceAreOverThePairsThatSeeEachOther) {
  ModelInfo model = model_;
  model.head_dim = 12;
  model.rope_scaling = "null";
  const DistanceKernel kernel = distance_kernel(view(queries_), view(keys_), Rope(model),
                                                LogitRule(kScale), reach_, test::unwatched);
  ASSERT_EQ(static_cast<int>(kernel.mean_attention.size()), std::min(GetParam(), kChunkTokens));
  for (int distance = 0; distance < static_cast<int>(kernel.mean_attention.size()); ++distance) {
    double logit = 0.0, attention = 0.0, predicted = 0.0;
    int pairs = 0;
    for (int query = distance; query < kChunkTokens; ++query) {
      if (!naive::sees(model_, query, query - distance)) continue;
      ++pairs;
      logit += logits_(query, query - distance);
      attention += attention_(query, query - distance);
      double sum = 0.0;
      for (std::size_t other = 0; other < kernel.logit.size(); ++other) {
        if (naive::sees(model_, query, query - static_cast<int>(other)) &&
            query >= static_cast<int>(other)) {
          sum += std::exp(kernel.logit[other]);
        }
      }
      predicted += std::exp(kernel.logit[distance]) / sum;
    }
    ASSERT_GT(pairs, 0);
    EXPECT_NEAR(kernel.mean_logit[distance], logit / pairs, 1e-5);
    EXPECT_NEAR(kernel.mean_attention[distance], attention / pairs, 1e-5);
    EXPECT_NEAR(kernel.attention[distance], predicted / pairs, 1e-9);
  }
}

struct ChunkedReplay : testing::Test {
  const Trace& trace(int chunk) {
    test::SyntheticTraceOptions options{.head_dim = 8,
                                        .prompt_length = 60,
                                        .generated = kChunkTokens - 60,
                                        .block = 16,
                                        .chunk_size = chunk};
    options.layer_attributes.resize(static_cast<std::size_t>(options.layers));
    const std::string name = "c" + std::to_string(chunk) + ".h5";
    if (!std::filesystem::exists(folder_ / name)) {
      states_ = test::write_synthetic_trace(folder_ / name, options);
    }
    open_ = std::make_unique<Trace>(folder_ / name);
    return *open_;
  }
  static Replay run(const Trace& trace, const std::string& spec, int budget) {
    return replay(trace, {.policy = parse_policy(spec), .budget = budget}, test::unwatched);
  }

  test::TemporaryFolder folder_;
  test::SyntheticStates states_;
  std::unique_ptr<Trace> open_;
};

TEST_F(ChunkedReplay, ABudgetThatHoldsAChunkLosesNothing) {
  for (const int chunk :
       {1, 10, 16, 32, 35}) {  // 10 and 35 end with the last token, 16 with a block
    const Trace& trace = this->trace(chunk);
    for (const PolicyEntry& score : policy_catalog()) {
      if (score.kind() != PartKind::score || !test::stands_alone(score)) continue;
      const std::string spec = score.example.empty() ? score.name : score.example;
      SCOPED_TRACE(spec + ", chunks of " + std::to_string(chunk));
      const Replay result = run(trace, spec, chunk);
      for (const HeadReplay& head : result.heads) {
        for (std::size_t s = 0; s < head.steps.size(); ++s) {
          const StepRecord& record = head.steps[s];
          const int step = static_cast<int>(s), end = result.blocks[s].end;
          // What the next query sees of the past; after the last token there is no new chunk.
          const int left = end == kChunkTokens ? end - (end - 1) / chunk * chunk : end % chunk;
          ASSERT_EQ(record.cache_size, left);
          ASSERT_EQ(record.retained, left);
          ASSERT_EQ(record.seen, left);
          ASSERT_EQ(static_cast<int>(result.retained_at(head, step).size()), left);
          // The step's last query has all of its chunk.
          ASSERT_EQ(static_cast<int>(result.seen_at(head, step).size()), (end - 1) % chunk + 1);
          for (const QueryHeadMetrics& metrics : test::metrics_of(record)) {
            ASSERT_NEAR(metrics.retained_mass, 1.0, 1e-12);
            ASSERT_EQ(metrics.perturbation_l1, 0.0);
            ASSERT_EQ(metrics.head_error_l2, 0.0);
          }
        }
      }
    }
  }
}

TEST_F(ChunkedReplay, NothingOfItIsChargedToThePolicy) {
  const Trace& trace = this->trace(32);
  const Replay result = run(trace, "h2o+sinks(2)", 8);
  EXPECT_THAT(result.notes, Contains(HasSubstr("chunk of 32 tokens")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("only while they are in the chunk")));
  EXPECT_EQ(window_text(trace), "chunk of 32 tokens");
  EXPECT_EQ(trace.narrowest_reach(), Reach(0, 32, kChunkTokens));
  EXPECT_TRUE(trace.same_reach());
  const std::string json = test::json_of(result);
  EXPECT_THAT(json, HasSubstr("\"chunk\":32,"));
  EXPECT_THAT(json, Not(HasSubstr("\"window\"")));
  for (const HeadReplay& head : result.heads) {
    int evicted = 0, unseen = 0;
    for (int token = 0; token < kChunkTokens; ++token) {
      const int left = head.evicted_at[token];
      if (left < 0) continue;
      ++(result.left_unseen(head, token) ? unseen : evicted);
    }
    EXPECT_GT(evicted, 0);
    EXPECT_GT(unseen, 0);
    // The last chunk is tokens 64 to 69: fewer than the budget.
    EXPECT_EQ(head.steps.back().retained, kChunkTokens - 64);
  }
}

TEST_F(ChunkedReplay, SinksAreMeasuredWhereTheyAreSeen) {
  const Trace& trace = this->trace(16);
  for (const int token : {0, 15, 16, 21, kChunkTokens - 1}) {
    const Matrix queries = trace.query(1, 2);
    const Matrix keys = trace.key(1, trace.model().head_of(2));
    double sum = 0.0;
    int seeing = 0;
    for (int query = token + 1; query < kChunkTokens; ++query) {
      if (!naive::sees(trace.layer_model(1), query, token)) continue;
      double all = 0.0;
      const auto weight = [&](int other) {
        return std::exp(trace.run().attention_scale *
                        queries.row(query).cast<double>().dot(keys.row(other).cast<double>()));
      };
      for (int other = 0; other <= query; ++other) {
        if (naive::sees(trace.layer_model(1), query, other)) all += weight(other);
      }
      sum += weight(token) / all;
      ++seeing;
    }
    EXPECT_EQ(first_unseeing(token, trace.reach(1), kChunkTokens) - token - 1, seeing);
    EXPECT_NEAR(sink_strength(trace, 1, 2, token, test::unwatched),
                seeing == 0 ? 0.0 : sum / seeing, 2e-4);
  }
}

// A chunk that is as long as the trace hides nothing: the replay is that of a trace without one.
TEST_F(ChunkedReplay, OneThatHidesNothingChangesNoBit) {
  const auto json = [&](int chunk) { return test::json_of(run(trace(chunk), "h2o", 20)); };
  const std::string plain = json(0);
  EXPECT_EQ(json(kChunkTokens), plain);
  EXPECT_EQ(json(4096), plain);
  EXPECT_NE(json(32), plain);
}

}  // namespace
}  // namespace kvloupe
