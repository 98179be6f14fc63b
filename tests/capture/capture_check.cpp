#include "tests/capture/capture_check.h"

#include "analysis/trace/trace_final_norm.h"
#include "tests/support/stored_attention.h"
#include "tests/support/test.h"

namespace kvloupe::test {

namespace {

Rows rows_of(const Matrix& m) {
  Rows rows;
  for (Eigen::Index i = 0; i < m.rows(); ++i) {
    rows.emplace_back(m.row(i).data(), m.row(i).data() + m.cols());
  }
  return rows;
}

/// Largest absolute difference.
double distance(const Matrix& a, const Rows& b) {
  double largest = 0;
  for (Eigen::Index i = 0; i < a.rows(); ++i) {
    for (Eigen::Index j = 0; j < a.cols(); ++j) {
      largest = std::max(largest, std::abs(double{a(i, j)} - b[i][j]));
    }
  }
  return largest;
}

}  // namespace

CaptureSummary capture(const CaptureRequest& request) {
  QuietObserver observer;
  return run_capture(request, unwatched, observer);
}

TinyRun::TinyRun(TinyCheckpoint tiny, int tokens, unsigned seed) : tiny_(std::move(tiny)) {
  tiny_.write(folder_.path());
  write_file(folder_ / "ids.txt", random_ids_text(tokens, tiny_.vocab_size, seed));
}

CaptureRequest TinyRun::request(int block, const std::string& target) const {
  return CaptureRequest{.model = folder_.path(),
                        .target = folder_ / target,
                        .ids = folder_ / "ids.txt",
                        .prompt_length = prompt_length_,
                        .block = block,
                        .attention = attention_,
                        .dtype = "f32",
                        .storage = Storage::float32};
}

Trace TinyRun::run(CaptureRequest request, const std::string& policy, const std::string& budget,
                   Positions positions) const {
  if (!policy.empty()) {
    request.policy = parse_policy(policy);
    request.budget = parse_budget(budget);
  }
  request.positions = positions;
  capture(request);
  return Trace(request.target);
}

Replay replay_of(const Trace& trace, const std::string& policy, int budget) {
  ReplayRequest request{.policy = parse_policy(policy), .budget = budget, .metrics = false};
  return replay(trace, request, unwatched);
}

void expect_same_numbers(const Trace& trace, const Trace& expected) {
  ASSERT_EQ(trace.tokens().ids, expected.tokens().ids);
  const ModelInfo& model = expected.model();
  for (int layer = 0; layer < model.num_layers; ++layer) {
    for (int head = 0; head < model.num_kv_heads; ++head) {
      EXPECT_EQ(trace.key(layer, head), expected.key(layer, head));
      EXPECT_EQ(trace.value(layer, head), expected.value(layer, head));
    }
    for (int head = 0; head < model.num_heads; ++head) {
      EXPECT_EQ(trace.query(layer, head), expected.query(layer, head));
      EXPECT_EQ(trace.attention_logsumexp(layer, head), expected.attention_logsumexp(layer, head));
      EXPECT_EQ(stored_attention(trace, layer, head), stored_attention(expected, layer, head));
      EXPECT_EQ(trace.value_out_norm(layer, head, Norm::l2),
                expected.value_out_norm(layer, head, Norm::l2));
    }
  }
  EXPECT_EQ(trace.predictions()->token_ids, expected.predictions()->token_ids);
  EXPECT_EQ(trace.predictions()->logprob, expected.predictions()->logprob);
  EXPECT_EQ(trace.final_hidden(), expected.final_hidden());
}

void expect_like_naive(const Trace& trace, const NaiveModel& model, double tolerance) {
  expect_like_naive(trace, model.run(trace.tokens().ids), tolerance);
}

void expect_like_naive(const Trace& trace, const NaiveModel::Result& naive, double tolerance) {
  const std::vector<std::int32_t>& ids = trace.tokens().ids;
  const ModelInfo& model = trace.model();
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const NaiveStates& states = naive.layers[layer];
    for (int head = 0; head < model.num_heads; ++head) {
      EXPECT_LT(distance(trace.query(layer, head), states.query[head]), tolerance)
          << "query, layer " << layer << ", head " << head;
    }
    for (int head = 0; head < model.num_kv_heads; ++head) {
      EXPECT_LT(distance(trace.key(layer, head), states.key[head]), tolerance)
          << "key, layer " << layer;
      EXPECT_LT(distance(trace.value(layer, head), states.value[head]), tolerance)
          << "value, layer " << layer;
    }
  }
  const TraceFinalNorm last_norm(trace);
  ASSERT_EQ(last_norm.known(), naive.plain_residual);
  if (naive.plain_residual) {
    EXPECT_FALSE(last_norm.centred());
  }
  for (std::size_t t = 0; naive.plain_residual && t < ids.size(); ++t) {
    double square = 0.0;
    for (const double x : naive.hidden.back()[t]) square += x * x / model.hidden_size;
    const double rms = std::sqrt(square);  // epsilon is far below the tolerance
    EXPECT_NEAR(last_norm.rms(static_cast<int>(t)) / rms, 1.0, tolerance) << "token " << t;
  }
  const auto predictions = trace.predictions();
  ASSERT_TRUE(predictions);
  ASSERT_EQ(predictions->k, 5);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const Row& expected = naive.log_probabilities[t];
    if (t + 1 < ids.size()) {
      EXPECT_NEAR(predictions->loss[t], -expected[ids[t + 1]], tolerance) << "token " << t;
    } else {
      EXPECT_TRUE(std::isnan(predictions->loss[t]));
    }
    Row sorted = expected;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (std::size_t k = 0; k < 5; ++k) {
      const auto id = static_cast<std::size_t>(predictions->token_ids[t * 5 + k]);
      EXPECT_NEAR(predictions->logprob[t * 5 + k], expected[id], tolerance) << "token " << t;
      EXPECT_NEAR(expected[id], sorted[k], tolerance) << "token " << t << ", rank " << k;
    }
  }
}

void expect_consistent(const Trace& trace) {
  expect_consistent(trace, 1 / std::sqrt(static_cast<double>(trace.model().head_dim)));
}

void expect_consistent(const Trace& trace, double scale) {
  const ModelInfo& model = trace.model();
  EXPECT_NEAR(trace.run().attention_scale, scale, 1e-12);
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const LayerAttention rule = trace.attention(layer);
    for (int head = 0; head < model.num_heads; ++head) {
      SCOPED_TRACE("layer " + std::to_string(layer) + ", query head " + std::to_string(head));
      const Rows query = rows_of(trace.query(layer, head));
      const Rows key = rows_of(trace.key(layer, model.head_of(head)));
      const Rows value = rows_of(trace.value(layer, model.head_of(head)));
      const std::vector<float> logsumexp = trace.attention_logsumexp(layer, head);
      ASSERT_EQ(logsumexp.size(), query.size());
      const auto attention = stored_attention(trace, layer, head);
      double worst_logsumexp = 0, worst_cell = 0;
      for (std::size_t t = 0; t < query.size(); ++t) {
        double expected = 0;
        const float* const sink = rule.sink_logits.empty() ? nullptr : &rule.sink_logits[head];
        const Row row = naive_attention_row(query[t], key, t, scale, &expected, trace.window(layer),
                                            rule.softcap, sink);
        worst_logsumexp = std::max(worst_logsumexp, std::abs(expected - double{logsumexp[t]}));
        if (!attention) continue;
        for (std::size_t j = 0; j < query.size(); ++j) {
          const double cell =
              (*attention)(static_cast<Eigen::Index>(t), static_cast<Eigen::Index>(j));
          worst_cell = std::max(worst_cell, std::abs(cell - (j <= t ? row[j] : 0.0)));
        }
      }
      EXPECT_LT(worst_logsumexp, 2e-5);
      EXPECT_LT(worst_cell, 3e-4);  // float16 near 1 steps by 2^-11

      const auto weight = trace.output_weight(layer, head);
      ASSERT_TRUE(weight);
      const std::vector<float> l1 = trace.value_out_norm(layer, head, Norm::l1);
      const std::vector<float> l2 = trace.value_out_norm(layer, head, Norm::l2);
      ASSERT_EQ(l1.size(), value.size());
      for (std::size_t t = 0; t < value.size(); ++t) {
        double expected_l1 = 0, expected_squares = 0;
        for (Eigen::Index column = 0; column < weight->cols(); ++column) {
          double out = 0;
          for (std::size_t c = 0; c < value[t].size(); ++c) {
            out += value[t][c] * double{(*weight)(static_cast<Eigen::Index>(c), column)};
          }
          expected_l1 += std::abs(out);
          expected_squares += out * out;
        }
        EXPECT_NEAR(l1[t], expected_l1, 1e-4 * (1 + expected_l1));
        EXPECT_NEAR(l2[t], std::sqrt(expected_squares), 1e-4 * (1 + expected_l1));
      }
    }
  }
}

}  // namespace kvloupe::test
