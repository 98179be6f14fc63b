// A closed-loop run beside the full run, against plain loops and the naive model.
#include "analysis/replay/drift.h"
#include "tests/capture/capture_check.h"
#include "tests/capture/follow_trace.h"
#include "tests/capture/tiny_checkpoint.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

constexpr int kDriftTokens = 70;

struct DriftTest : testing::Test, TinyRun {
  DriftTest() : TinyRun({}, kDriftTokens, 5) {
    prompt_length_ = 55;
    attention_ = CaptureRequest{}.attention;
  }

  Trace run(const std::string& name, const std::string& policy = "", int budget = 0,
            Positions positions = Positions::original) const {
    CaptureRequest wanted = request(16, name);
    wanted.lm_head = lm_head_;
    return TinyRun::run(wanted, policy, std::to_string(budget), positions);
  }
  static Drift drift_of(const Trace& full, const Trace& closed) {
    return measure_drift(full, closed, unwatched);
  }

  bool lm_head_ = false;
};

Row row_of(const Matrix& m, int row) {
  return {m.data() + row * m.cols(), m.data() + (row + 1) * m.cols()};
}

/// x turned by so many positions: pairs (j, j + d/2), θ = 500 as the tiny checkpoints have it.
Row turned(const Row& x, int positions) {
  const std::size_t half = x.size() / 2;
  Row y(x.size());
  for (std::size_t j = 0; j < half; ++j) {
    const double angle =
        positions * std::pow(500.0, -2.0 * static_cast<double>(j) / static_cast<double>(x.size()));
    y[j] = x[j] * std::cos(angle) - x[j + half] * std::sin(angle);
    y[j + half] = x[j + half] * std::cos(angle) + x[j] * std::sin(angle);
  }
  return y;
}

/// Output of query head `q` at token t over the tokens its head held at that step.
Row output(const Trace& trace, int layer, int q, int t, int step, bool closed, bool compact) {
  const int head = trace.model().head_of(q);
  const Matrix keys = trace.key(layer, head), values = trace.value(layer, head);
  std::vector<int> held;
  for (int j = 0; j <= t; ++j) {
    const int left = closed ? (*trace.evicted_at(layer, head))[j] : -1;
    if (left < 0 || left >= step) held.push_back(j);
  }
  const int places = static_cast<int>(held.size());
  Row query = row_of(trace.query(layer, q), t);
  if (compact) query = turned(query, places - 1 - t);
  Rows rows;
  for (int i = 0; i < places; ++i) {
    const int token = held[i];
    const Row key = row_of(keys, token);
    rows.push_back(compact ? turned(key, i - token) : key);
  }
  const Row weights =
      naive_attention_row(query, rows, rows.size() - 1, trace.run().attention_scale);
  Row result(query.size(), 0.0);
  for (const auto& [i, c] : cells(rows.size(), result.size())) {
    result[c] += weights[i] * double{values(held[i], static_cast<Eigen::Index>(c))};
  }
  return result;
}

double output_distance(const Trace& full, const Trace& closed, int layer, bool compact) {
  double difference = 0, whole = 0;
  for (std::size_t step = 0; step < closed.blocks().size(); ++step) {
    const Block& block = closed.blocks()[step];
    for (int t = block.first; t < block.end; ++t) {
      for (int q = 0; q < full.model().num_heads; ++q) {
        const Row a = output(full, layer, q, t, static_cast<int>(step), false, false);
        const Row b = output(closed, layer, q, t, static_cast<int>(step), true, compact);
        for (std::size_t c = 0; c < a.size(); ++c) {
          difference += (a[c] - b[c]) * (a[c] - b[c]);
          whole += a[c] * a[c];
        }
      }
    }
  }
  return std::sqrt(difference / whole);
}

double key_distance(const Trace& full, const Trace& closed, int layer) {
  double difference = 0, whole = 0;
  for (int head = 0; head < full.model().num_kv_heads; ++head) {
    const Matrix a = full.key(layer, head), b = closed.key(layer, head);
    for (Eigen::Index i = 0; i < a.size(); ++i) {
      const double x = a.data()[i], y = b.data()[i];
      difference += (x - y) * (x - y);
      whole += x * x;
    }
  }
  return std::sqrt(difference / whole);
}

TEST_F(DriftTest, IsWhatPlainLoopsAndTheNaiveModelSay) {
  const Trace full = run("full.h5");
  const NaiveModel naive(folder_.path());
  const NaiveModel::Result naive_full = naive.run(full.tokens().ids);
  for (const auto& [policy, positions] :
       {std::pair("h2o", Positions::original), std::pair("keydiff", Positions::compact)}) {
    SCOPED_TRACE(policy);
    const bool compact = positions == Positions::compact;
    const Trace closed = run("closed.h5", policy, 12, positions);
    const Drift drift = drift_of(full, closed);
    EXPECT_EQ(drift.first_eviction, 0);
    EXPECT_EQ(drift.positions, compact ? "compact" : "original");

    const Replay open = replay(full, {.policy = parse_policy(policy), .budget = 12}, unwatched);
    ASSERT_EQ(drift.heads.size(), 4U);
    double deeper = 0;
    for (const HeadDrift& head : drift.heads) {
      const HeadReplay& replayed = *open.find(head.layer, head.head);
      const auto evicted = *closed.evicted_at(head.layer, head.head);
      ASSERT_EQ(head.jaccard.size(), closed.blocks().size());
      for (std::size_t step = 0; step < head.jaccard.size(); ++step) {
        const auto kept = open.retained_at(replayed, static_cast<int>(step));
        std::set<int> all(kept.begin(), kept.end());
        double common = 0;
        for (int t = 0; t < closed.blocks()[step].end; ++t) {
          const int left = evicted[t];
          if (left >= 0 && left <= static_cast<int>(step)) continue;
          common += std::binary_search(kept.begin(), kept.end(), t) ? 1 : 0;
          all.insert(t);
        }
        EXPECT_NEAR(head.jaccard[step], common / static_cast<double>(all.size()), 1e-12);
      }
      // Layer 0 decides from the same states; compact positions change nothing that keydiff sees.
      if (head.layer == 0) {
        EXPECT_EQ(Drift::mean_jaccard(head, 0), 1.0);
      } else {
        deeper += Drift::mean_jaccard(head, 0);
      }
    }
    EXPECT_LT(deeper, 2.0);

    ASSERT_EQ(drift.layers.size(), 2U);
    for (const LayerDrift& layer : drift.layers) {
      EXPECT_NEAR(layer.key, key_distance(full, closed, layer.layer), 1e-6);
      EXPECT_NEAR(layer.output, output_distance(full, closed, layer.layer, compact), 1e-5);
    }
    EXPECT_EQ(drift.layers[0].key, 0.0);
    EXPECT_GT(drift.layers[0].output, 0.01);
    EXPECT_GT(drift.layers[1].key, 0.01);

    const NaiveModel::Result naive_closed =
        naive.run(closed.tokens().ids, closed.blocks(), follow(closed), compact);
    EXPECT_EQ(drift.divergence_kind, DivergenceKind::exact);
    ASSERT_EQ(drift.tokens.size(), static_cast<std::size_t>(kDriftTokens));
    double sum = 0;
    for (std::size_t t = 0; t < drift.tokens.size(); ++t) {
      const Row& p = naive_full.log_probabilities[t];
      const Row& q = naive_closed.log_probabilities[t];
      double kl = 0;
      for (std::size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
      EXPECT_NEAR(drift.tokens[t].divergence, kl, 2e-3 * (1 + kl)) << "token " << t;
      sum += kl;
      EXPECT_LE(top_divergence(*full.predictions(), *closed.predictions(), t), kl + 1e-4);
      const auto top = [](const Row& row) {
        return std::max_element(row.begin(), row.end()) - row.begin();
      };
      EXPECT_EQ(drift.tokens[t].same_top1, top(p) == top(q)) << "token " << t;
      if (t + 1 == drift.tokens.size()) continue;
      const auto next = static_cast<std::size_t>(full.tokens().ids[t + 1]);
      EXPECT_NEAR(drift.tokens[t].loss_difference, p[next] - q[next], 1e-3);
    }
    EXPECT_NEAR(drift.mean_divergence(), sum / kDriftTokens, 2e-3 * (1 + sum / kDriftTokens));
    EXPECT_TRUE(std::isnan(drift.tokens.back().loss_difference));
  }
}

TEST(TopDivergence, WorkedByHand) {
  const auto log = [](double p) { return static_cast<float>(std::log(p)); };
  Trace::Predictions full, closed;
  full.k = closed.k = 2;
  full.token_ids = {9, 9, 1, 2};
  full.logprob = {0, 0, log(0.5), log(0.3)};
  closed.token_ids = {9, 9, 3, 1};
  closed.logprob = {0, 0, log(0.5), log(0.25)};
  // Token 1: 0.5 and 0.25; all others: 0.5 and 0.75. 0.5 ln 2 + 0.5 ln(2/3) = 0.3466 − 0.2027.
  EXPECT_NEAR(top_divergence(full, closed, 1), 0.14384, 1e-5);
  EXPECT_EQ(top_divergence(full, full, 1), 0.0);
}

TEST_F(DriftTest, NothingDriftsWhereNothingIsEvicted) {
  const Trace full = run("full.h5");
  const Trace closed = run("closed.h5", "h2o", kDriftTokens);
  const Drift drift = drift_of(full, closed);
  EXPECT_EQ(drift.first_eviction, static_cast<int>(drift.blocks.size()));
  for (const LayerDrift& layer : drift.layers) {
    EXPECT_EQ(layer.query + layer.key + layer.value + layer.output, 0.0);
  }
  for (const HeadDrift& head : drift.heads) EXPECT_THAT(head.jaccard, Each(1.0));
  EXPECT_EQ(drift.mean_divergence(), 0.0);
  EXPECT_EQ(drift.same_top1_share(), 1.0);
  EXPECT_EQ(drift.mean_loss_difference(), 0.0);
}

TEST_F(DriftTest, WithoutAnOutputHeadTheBoundSaysHowToGetTheExactKL) {
  tiny_.vocab_size = 800;  // the head is larger than the states in float32
  tiny_.write(folder_.path());
  const Trace full = run("full.h5"), closed = run("closed.h5", "h2o", 12);
  ASSERT_FALSE(full.lm_head() || closed.lm_head());
  const Drift bound = drift_of(full, closed);
  EXPECT_EQ(bound.divergence_kind, DivergenceKind::top);
  EXPECT_THAT(bound.notes,
              Contains(HasSubstr("capture the prompt again with kvloupe-capture run … --lm-head")));
  lm_head_ = true;
  const Drift exact = drift_of(full, run("with-head.h5", "h2o", 12));
  EXPECT_EQ(exact.divergence_kind, DivergenceKind::exact) << "one of the two is enough";
  EXPECT_GE(exact.mean_divergence(), bound.mean_divergence());
}

TEST_F(DriftTest, MergedOutputsAreNotGuessed) {
  const Trace full = run("full.h5");
  for (const char* policy :
       {"h2o+kvmerger(0.3)", "attentionmatching", "h2o+quant(2,group=8,residual=4)"}) {
    SCOPED_TRACE(policy);
    const Trace closed = run("closed.h5", policy, 12);
    const Drift drift = drift_of(full, closed);
    EXPECT_TRUE(std::isnan(drift.layers[0].output));
    EXPECT_EQ(Drift::mean_jaccard(drift.heads[0], 0), 1.0);
    EXPECT_THAT(drift.notes, Contains(HasSubstr("merged or refitted")));
  }
}

TEST_F(DriftTest, RefusesWhatCannotBeCompared) {
  const auto refusal = [](const Trace& full, const Trace& closed) {
    return error_of<FileError>([&] { drift_of(full, closed); }, "compared");
  };
  const Trace full = run("full.h5");
  const Trace closed = run("closed.h5", "h2o", 12);
  EXPECT_THAT(refusal(closed, closed), HasSubstr("ran with h2o in its cache"));
  EXPECT_THAT(refusal(full, full), HasSubstr("ran with the full cache"));
  std::vector<std::int32_t> ids = full.tokens().ids;
  std::string text;
  ids[41] = (ids[41] + 1) % tiny_.vocab_size;
  for (const std::int32_t id : ids) text += std::to_string(id) + " ";
  write_file(folder_ / "ids.txt", text);
  const Trace other = run("other.h5", "h2o", 12);
  EXPECT_THAT(refusal(full, other), HasSubstr("token 41 is " + std::to_string(ids[41])));
}

}  // namespace
}  // namespace kvloupe::test
