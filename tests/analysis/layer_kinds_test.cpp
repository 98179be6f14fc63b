// Traces whose layers differ (format version 2): layers without a cache, other numbers of heads,
// other widths, values that are a part of the keys, shared caches, gates.

#include "analysis/math/attention.h"
#include "analysis/math/attention_map.h"
#include "analysis/math/bounds.h"
#include "analysis/math/perturbation.h"
#include "analysis/math/rope.h"
#include "analysis/math/sink.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/follow.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/trace_size.h"
#include "analysis/trace/trace_writer.h"
#include "tests/naive/naive_asked.h"
#include "tests/support/edited_trace.h"
#include "tests/support/kinds_trace.h"
#include "tests/support/random_matrix.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using test::kKindsGenerated;
using test::kKindsPrompt;
using test::kKindsTokens;
using test::made_layers;
using test::MadeLayer;
using test::random_matrix;

struct LayerKinds : testing::Test {
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    test::write_kinds_trace(path(), made_layers());
    trace_ = new Trace(path());
  }
  static void TearDownTestSuite() {
    delete trace_;
    delete folder_;
  }
  static fs::path path() { return *folder_ / "kinds.h5"; }
  static inline test::TemporaryFolder* folder_ = nullptr;
  static inline Trace* trace_ = nullptr;
};

TEST_F(LayerKinds, EachLayerHasItsOwnShape) {
  const Trace& trace = *trace_;
  EXPECT_EQ(trace.storing_layers(), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(trace.model().num_layers, 5);
  EXPECT_EQ(trace.layer_model(0).num_heads, 0);
  EXPECT_EQ(trace.layer_model(0).mixer, "Mamba-2");
  EXPECT_EQ(trace.layer_model(0).state_bytes, 4096);
  EXPECT_FALSE(trace.attends(0));
  EXPECT_EQ(trace.layer_model(2).num_kv_heads, 1);
  EXPECT_EQ(trace.layer_model(2).group_size(), 4);
  EXPECT_EQ(trace.layer_model(3).value_width(), 10);
  EXPECT_EQ(trace.layer_model(4).shares_with, 1);
  EXPECT_EQ(trace.layer_model(4).num_kv_heads, 2);
  EXPECT_EQ(trace.most_heads(), 3);
  EXPECT_EQ(trace.most_query_heads(), 6);
  EXPECT_EQ(trace.all_heads(), 2 + 1 + 3 + 2);
  EXPECT_EQ(trace.model().all_cache_heads(), 2 + 1 + 3);
  EXPECT_TRUE(trace.has_output_weight());
  const std::vector<MadeLayer> layers = made_layers();
  for (const int layer : {1, 2, 3, 4}) {
    const test::SyntheticStates& made = layers[layer].made;
    for (int head = 0; head < trace.layer_model(layer).num_kv_heads; ++head) {
      EXPECT_EQ(trace.key(layer, head), made.key[0][head]) << layer;
      EXPECT_EQ(trace.value(layer, head), made.value[0][head]) << layer;
    }
    for (int q = 0; q < trace.layer_model(layer).num_heads; ++q) {
      EXPECT_EQ(trace.query(layer, q), made.query[0][q]);
    }
    // A block of all heads: the same numbers.
    const Matrix values = trace.values(layer, {3, 9});
    EXPECT_EQ(values.row(2), made.value[0][0].row(5)) << layer;
  }
  EXPECT_EQ(trace.gate(3).middleCols(10, 10), test::made_gate(kKindsTokens, 10, 1));
  EXPECT_EQ(trace.gate(1).size(), 0);
  // 16 bits: 2 heads of 8 + 8, one of 12 (its values are a part of it), 3 of 6 + 10.
  const CacheBytes bytes = cache_bytes(trace);
  EXPECT_EQ(bytes.per_token, 2.0 * (2 * 16 + 12 + 3 * 16));
  EXPECT_EQ(bytes.states, 4096.0);
  EXPECT_EQ(layer_kinds_text(trace),
            "1 Mamba-2, 2 attention, 1 latent attention, 1 with a shared cache");
}

TEST_F(LayerKinds, ALayerWithoutACacheIsRefusedByName) {
  const auto message = [&](const auto& work) -> std::string {
    return test::error_of<UsageError>(work);
  };
  EXPECT_NE(message([&] { trace_->key(0, 0); }).find("layer 0"), std::string::npos);
  EXPECT_NE(message([&] { trace_->query(0, 0); }).find("Mamba-2"), std::string::npos);
  ReplayRequest request{.budget = 9, .layers = {0}};
  EXPECT_NE(message([&] { replay(*trace_, request, test::unwatched); }).find("nothing to evict"),
            std::string::npos);
}

/// Specs of all policies that a trace alone can be replayed with, one variant each.
std::vector<PolicySpec> all_policies() {
  std::vector<PolicySpec> specs;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (entry.traits.reads_probe || entry.example.find('"') != std::string::npos) continue;
    if (entry.traits.reads_residual) continue;
    if (entry.name == "headbudgets" || entry.name == "python" || entry.name == "plugin" ||
        entry.name == "external")
      continue;
    std::string text = entry.example;
    if (text.empty()) text = entry.kind() == PartKind::score ? entry.name : "h2o+" + entry.name;
    specs.push_back(parse_policy(text));
  }
  return specs;
}

Replay replayed(const Trace& trace, const PolicySpec& policy, int budget, bool metrics) {
  ReplayRequest request{.policy = policy, .budget = budget, .block = 16, .metrics = metrics};
  return replay(trace, request, test::unwatched);
}

// The naive twin gets each layer's states and shape alone; what all layers share (budgets by layer)
// it does not know, so such policies are compared below.
TEST_F(LayerKinds, EveryPolicyAgreesWithItsTwinInEachLayer) {
  naive::NaivePass pass;
  std::map<int, LayerStates> all;
  for (int layer = 0; layer < trace_->model().num_layers; ++layer) {
    if (!trace_->attends(layer)) continue;
    all[layer] = load_layer_states(*trace_, layer);
    pass.layers.push_back({&all[layer], trace_->layer_model(layer), trace_->attention(layer)});
  }
  long decisions = 0;
  for (const PolicySpec& policy : all_policies()) {
    bool alone = true;
    for (const SpecPart& part : policy.parts) {
      const PolicyEntry& entry = *find_policy(part.name);
      if (entry.as<LayerBudgetBuilder>() != nullptr || entry.traits.reads_sequence) alone = false;
      if (entry.traits.budget_is_outcome || entry.traits.needs_future) alone = false;
      if (entry.traits.reads_structure) alone = false;  // the trace has no texts
    }
    if (!alone) continue;
    const Replay fast = replayed(*trace_, policy, 20, true);
    for (const int layer : trace_->storing_layers()) {
      const LayerStates states = load_layer_states(*trace_, layer);
      const naive::Comparison found =
          naive::compare(fast, layer, states, trace_->layer_model(layer), trace_->attention(layer),
                         nullptr, trace_->run().prompt_length, {}, &pass);
      EXPECT_EQ(found.failure, "") << policy.text() << ", layer " << layer;
      decisions += found.decisions;
    }
  }
  EXPECT_GT(decisions, 10000);
}

// Layers without a cache and layers that read another one's change nothing for the others: neither
// their budgets nor their sets.
TEST_F(LayerKinds, OtherLayersAreReplayedAsIfTheyStoodAlone) {
  const std::vector<MadeLayer> layers = made_layers();
  const auto plain = *folder_ / "plain.h5";
  test::write_kinds_trace(plain, {layers[1], layers[2], layers[3]});
  const Trace a(plain);
  const Trace& b = *trace_;
  int compared = 0;
  for (const PolicySpec& policy : all_policies()) {
    const std::string text = policy.text();
    if (has_trait(policy, &PolicyTraits::reads_pass)) continue;  // reads the layer that shares
    // Drawn by the number of the layer, which differs.
    if (text.find("random") != std::string::npos || text.find("sketch") != std::string::npos ||
        text.find("leverage") != std::string::npos || text.find("compactor") != std::string::npos ||
        text.find("bernoulli") != std::string::npos || text.find("cam") != std::string::npos) {
      continue;
    }
    const Replay of_a = replayed(a, policy, 20, false), of_b = replayed(b, policy, 20, false);
    for (int layer = 0; layer < 3; ++layer) {
      for (int head = 0; head < a.layer_model(layer).num_kv_heads; ++head) {
        EXPECT_EQ(of_a.find(layer, head)->evicted_at, of_b.find(layer + 1, head)->evicted_at)
            << text << ", layer " << layer;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100);
}

TEST_F(LayerKinds, ASharedCacheIsThatOfTheLayerThatDecides) {
  for (const char* spec : {"h2o", "tova+caote", "keydiff+kvmerger(auto)", "snapkv(8)+adakv"}) {
    const Replay made = replayed(*trace_, parse_policy(spec), 12, true);
    for (int head = 0; head < 2; ++head) {
      const HeadReplay& own = *made.find(1, head);
      const HeadReplay& reader = *made.find(4, head);
      EXPECT_EQ(reader.shares_with, 1);
      EXPECT_EQ(own.shares_with, -1);
      EXPECT_EQ(reader.evicted_at, own.evicted_at) << spec;
      // The measures are those of its own queries.
      const Measure& mass = require_measure("retained_mass");
      EXPECT_NE(measure_at(mass, reader.steps.back()), measure_at(mass, own.steps.back())) << spec;
    }
  }
}

// The effect on later queries, gates included, against plain loops.
TEST_F(LayerKinds, LaterQueriesAgreeWithPlainLoops) {
  for (const char* spec : {"h2o", "keydiff+kvmerger(auto)"}) {
    const Replay made = replayed(*trace_, parse_policy(spec), 12, true);
    const AskedReplay answer = ask(*trace_, made, Asked::later, {}, test::unwatched);
    ASSERT_FALSE(answer.queries.empty());
    std::vector<naive::NaiveAsked> kept;
    std::vector<const naive::NaiveAsked*> parts;
    // The twin of a layer that reads another one's cache takes over that layer's sets; merges it
    // would not know.
    const bool merges = std::string_view(spec).find("kvmerger") != std::string_view::npos;
    for (const int layer : {1, 2, 3, 4}) {
      if (merges && layer == 4) continue;
      const LayerStates states = load_layer_states(*trace_, layer);
      for (const naive::NaiveAsked& one :
           naive::asked(states, trace_->layer_model(layer), trace_->attention(layer), layer, made,
                        answer.queries)) {
        kept.push_back(one);
      }
    }
    for (std::size_t h = 0; h < kept.size(); ++h) {
      const AskedHead& fast = answer.heads[h];
      EXPECT_NEAR(fast.kept_attention, kept[h].kept, 1e-5) << spec << " " << h;
      EXPECT_NEAR(fast.output_error, kept[h].error / kept[h].norm, 1e-5) << spec << " " << h;
      EXPECT_NEAR(fast.perturbation_l1, kept[h].l1, 1e-4 * (1.0 + kept[h].l1)) << spec << " " << h;
      if (std::isfinite(kept[h].theta)) {
        EXPECT_NEAR(fast.bound_l1, kept[h].theta, 1e-4 * (1.0 + kept[h].theta)) << spec << " " << h;
        EXPECT_LE(fast.perturbation_l1, fast.bound_l1 * (1.0 + 1e-5)) << spec << " " << h;
      }
    }
    if (!merges) {
      for (const naive::NaiveAsked& one : kept) parts.push_back(&one);
      EXPECT_NEAR(answer.residual_change, naive::relative_change(parts), 1e-5);
    }
    EXPECT_TRUE(std::isnan(answer.layer_errors[0]));
    EXPECT_TRUE(std::isfinite(answer.layer_errors[4]));
    EXPECT_TRUE(std::isfinite(answer.residual_change));
    EXPECT_GE(answer.worst_layer(), 1);
  }
}

TEST_F(LayerKinds, TheGateCountsInEveryMeasureOfOutputs) {
  std::vector<MadeLayer> without = made_layers();
  without[3].attributes.gate = false;
  const auto plain = *folder_ / "ungated.h5";
  test::write_kinds_trace(plain, without);
  const Trace ungated(plain);
  const Replay a = replayed(*trace_, parse_policy("h2o"), 12, true);
  const Replay b = replayed(ungated, parse_policy("h2o"), 12, true);
  for (const char* name : {"perturbation_l1", "bound_l1", "head_error_l2", "output_norm_l2"}) {
    const Measure& measure = require_measure(name);
    EXPECT_LT(measure_at(measure, a.find(3, 0)->steps.back()),
              measure_at(measure, b.find(3, 0)->steps.back()))
        << name;
    EXPECT_EQ(measure_at(measure, a.find(1, 0)->steps.back()),
              measure_at(measure, b.find(1, 0)->steps.back()))
        << name;
  }
  EXPECT_EQ(a.find(3, 0)->evicted_at, b.find(3, 0)->evicted_at);  // policies decide without it
}

/// Changes an attribute of a copy and returns why the copy is refused; empty: it is not.
std::string refusal(const fs::path& from, const fs::path& copy, const char* group,
                    const char* attribute, std::int64_t number, const char* text = nullptr) {
  fs::copy_file(from, copy, fs::copy_options::overwrite_existing);
  if (text != nullptr) {
    test::EditedTrace(copy).text(group, attribute, text);
  } else {
    test::EditedTrace(copy).integer(group, attribute, number);
  }
  return test::error_of<FileError>([&] { const Trace trace(copy); });
}

TEST_F(LayerKinds, WhatDoesNotFitIsRefusedWithLayerAndAttribute) {
  const auto copy = *folder_ / "wrong.h5";
  const auto expect = [&](const char* group, const char* attribute, std::int64_t number,
                          const char* text, const std::vector<std::string>& words) {
    const std::string message = refusal(path(), copy, group, attribute, number, text);
    for (const std::string& word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << attribute << ": " << message;
    }
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  };
  expect("/layers/4", "shares_with", 4, nullptr, {"layer 4", "shares_with", "earlier layer"});
  expect("/layers/4", "shares_with", 0, nullptr, {"layer 4", "shares_with"});
  expect("/layers/4", "shares_with", 9, nullptr, {"layer 4", "shares_with"});
  expect("/layers/4", "key_dim", 9, nullptr, {"layer 4", "key_dim", "layer 1"});
  expect("/layers/4", "sliding_window", 9, nullptr, {"layer 4", "sliding_window", "layer 1"});
  expect("/layers/1", "shares_with", 0, nullptr, {"layer 1", "shares_with"});
  expect("/layers/1", "kind", 0, "indexed", {"layer 1", "kind", "indexed", "newer"});
  expect("/layers/2", "value_dim", 13, nullptr, {"layer 2", "13", "12"});
  expect("/layers/2", "rotary_start", 9, nullptr, {"layer 2", "rotate"});
  expect("/layers/3", "num_kv_heads", 4, nullptr, {"layer 3", "num_kv_heads"});
  expect("/layers/3", "value_dim", 9, nullptr, {"/layers/3"});
  expect("/layers/3", "key_dim", 7, nullptr, {"/layers/3/query"});
  expect("/layers/0", "state_bytes", -1, nullptr, {"layer 0", "state_bytes"});
  expect("/", "format_version", 3, nullptr, {"format_version 3", "newer"});
  expect("/layers/1", "chunk_size", -1, nullptr, {"/layers/1", "chunk_size"});
  expect("/layers/4", "chunk_size", 16, nullptr, {"layer 4", "chunk_size", "layer 1"});
}

// What stays is counted in bytes over all layers, each with its own widths, a shared cache once.
TEST_F(LayerKinds, BytesAreThoseOfEveryCacheOnce) {
  ReplayRequest request{.policy = parse_policy("keydiff"), .budget = 17, .metrics = false};
  const Replay all = replay(*trace_, request, test::unwatched);
  const auto bytes = held_bytes(*trace_, all);
  ASSERT_TRUE(bytes);
  // Layer 1: 2 heads of 8 + 8 numbers; 2: one of 12, with the values in it; 3: 3 of 6 + 10.
  const double entry = 2.0 * (2 * 16 + 12 + 3 * 16);
  EXPECT_EQ(bytes->held, entry * 17);
  EXPECT_EQ(bytes->full, entry * kKindsTokens);
  EXPECT_EQ(bytes->full, cache_bytes(*trace_).per_token * kKindsTokens);
  EXPECT_EQ(bytes->states, 4096.0);
  EXPECT_EQ(held_bytes_text(*bytes),
            "0.00313 of 0.0125 MB in 16 bits, and 0.0041 MB of fixed states");
  EXPECT_EQ(reached_share(all), "25.0 % of the entries");
  request.layers = {1, 4};
  EXPECT_FALSE(held_bytes(*trace_, replay(*trace_, request, test::unwatched)));
}

TEST_F(LayerKinds, ATraceThatNeedsNothingNewIsVersionOne) {
  const auto plain = *folder_ / "one.h5";
  test::write_synthetic_trace(plain, {});
  const auto kinds = *folder_ / "two.h5";
  test::write_kinds_trace(kinds, made_layers());
  const auto version = [](const fs::path& path) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    std::int64_t number = 0;
    const hid_t id = H5Aopen_by_name(file, "/", "format_version", H5P_DEFAULT, H5P_DEFAULT);
    H5Aread(id, H5T_NATIVE_INT64, &number);
    H5Aclose(id);
    H5Fclose(file);
    return number;
  };
  EXPECT_EQ(version(plain), 1);
  EXPECT_EQ(version(kinds), 2);
}

// Layers that attend in their own way: soft caps, sink logits, windows, scales and rotations. The
// attention of every policy and its measures beside their naive twins: replay_naive_test.

/// Softmax rows by the formula, in double: softcap and sink of the rule, causal, no window.
Eigen::MatrixXd naive_rows(const Matrix& q, const Matrix& k, const LogitRule& rule) {
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(q.rows(), k.rows());
  for (Eigen::Index r = 0; r < q.rows(); ++r) {
    const Eigen::Index seen = k.rows() - q.rows() + r + 1;
    double sum = rule.has_sink() ? std::exp(rule.sink) : 0.0;
    for (Eigen::Index i = 0; i < seen; ++i) {
      double x = 0.0;
      for (Eigen::Index c = 0; c < q.cols(); ++c) {
        x += static_cast<double>(q(r, c)) * static_cast<double>(k(i, c));
      }
      x *= rule.scale;
      if (rule.softcap > 0.0) x = rule.softcap * std::tanh(x / rule.softcap);
      sum += a(r, i) = std::exp(x);
    }
    a.row(r) /= sum;
  }
  return a;
}

const std::vector<LogitRule>& rules() {
  static const std::vector<LogitRule> all = {{0.4, 0.0, LogitRule::kNoSink},
                                             {0.4, 1.5, LogitRule::kNoSink},
                                             {0.4, 0.0, 2.0},
                                             {0.4, 0.0, -3.0},
                                             {0.4, 2.5, 1.0},
                                             {0.1, 0.0, 30.0}};
  return all;
}

TEST(LayerAttention, EveryFunctionFollowsTheRule) {
  const Matrix k = random_matrix(150, 12, 1) * 2.0F;
  const Matrix q = random_matrix(150, 12, 2);
  for (const LogitRule& rule : rules()) {
    SCOPED_TRACE(testing::Message() << "cap " << rule.softcap << ", sink " << rule.sink);
    const Eigen::MatrixXd expected = naive_rows(q, k, rule);
    const Matrix rows = attention_rows(view(q), view(k), rule, 0);
    EXPECT_LT((rows.cast<double>() - expected).cwiseAbs().maxCoeff(), 1e-6);
    const auto logsumexp = attention_logsumexp(view(q), view(k), rule, 0, test::unwatched);
    const auto sums = attention_column_sums(view(q), view(k), rule, 0, test::unwatched);
    const auto entropy = attention_entropy(view(q), view(k), rule, 0, test::unwatched);
    for (int r = 0; r < 150; ++r) {
      // A query's own entry says what the whole row was divided by.
      const double logit = rule.logit(static_cast<double>(q.row(r).dot(k.row(r))));
      EXPECT_NEAR(std::exp(logit - logsumexp[r]), expected(r, r), 1e-5);
      double h = 0.0, entries = 0.0;
      for (int i = 0; i <= r; ++i) {
        if (expected(r, i) > 0.0) h -= expected(r, i) * std::log(expected(r, i));
        entries += expected(r, i);
      }
      if (const double rest = 1.0 - entries; rule.has_sink() && rest > 0.0)
        h -= rest * std::log(rest);
      EXPECT_NEAR(entropy[r], h, 1e-4) << r;
      EXPECT_NEAR(sums[r], expected.col(r).sum(), 1e-4);
    }
    AttentionWindow window{0, 150, 0, 150, 150, 150};
    const Matrix map = attention_map(view(q), view(k), rule, logsumexp, window, test::unwatched);
    for (int r = 0; r < 150; ++r) {
      for (int i = 0; i <= r; ++i) EXPECT_NEAR(map(r, i), expected(r, i), 1e-5);
    }
  }
}

// A sink logit is an entry of value 0 that always stays: the same problem with that entry written
// out has the same numbers, by the formulas without a sink.
TEST(LayerAttention, MeasuresCountASinkAsAnEntryThatStays) {
  const int n = 40, d = 6, hidden = 9;
  const Matrix values = random_matrix(n, d, 3);
  const Matrix weights = random_matrix(d, hidden, 4);
  const OutputWeight output(weights);
  Matrix more_values = Matrix::Zero(n + 1, d);
  more_values.bottomRows(n) = values;
  for (const double sink : {-2.0, 0.5, 4.0, 40.0}) {
    SCOPED_TRACE(sink);
    const Matrix random = random_matrix(1, n, 5);
    std::vector<float> logits(random.data(), random.data() + n);
    std::vector<float> more_logits = logits;
    more_logits.insert(more_logits.begin(), static_cast<float>(sink));
    std::vector<std::int32_t> kept, more_kept = {0}, gone, more_gone;
    std::vector<std::int32_t> one, two, more_one = {0}, more_two;
    for (std::int32_t i = 0; i < n; ++i) {
      (i % 3 == 0 ? gone : kept).push_back(i);
      (i % 3 == 0 ? more_gone : more_kept).push_back(i + 1);
      if (i % 3 == 0) continue;
      (i % 3 == 1 ? one : two).push_back(i);
      (i % 3 == 1 ? more_one : more_two).push_back(i + 1);
    }
    std::vector<float> l1, l2;
    for (int i = 0; i < n; ++i) {
      const Eigen::RowVectorXf out = values.row(i) * weights;
      l1.push_back(out.lpNorm<1>());
      l2.push_back(out.norm());
    }
    std::vector<float> more_l1 = l1, more_l2 = l2;
    more_l1.insert(more_l1.begin(), 0.0F);
    more_l2.insert(more_l2.begin(), 0.0F);
    const QueryHeadMetrics with =
        output_perturbation(logits, kept, view(values), &output, l1, l2, sink);
    const QueryHeadMetrics out =
        output_perturbation(more_logits, more_kept, view(more_values), &output, more_l1, more_l2);
    EXPECT_NEAR(with.retained_mass, out.retained_mass, 1e-12);
    EXPECT_NEAR(with.perturbation_l1, out.perturbation_l1, 1e-9);
    EXPECT_NEAR(with.bound_l1, out.bound_l1, 1e-9);
    EXPECT_NEAR(with.perturbation_l2, out.perturbation_l2, 1e-9);
    EXPECT_NEAR(with.bound_l2, out.bound_l2, 1e-9);
    EXPECT_NEAR(with.head_error_l2, out.head_error_l2, 1e-9);
    EXPECT_LE(with.perturbation_l1, with.bound_l1 * (1 + 1e-9));

    const std::vector<double> attention = softmax(logits, sink);
    const std::vector<double> more_attention = softmax(more_logits);
    const double share = sink_share(logits, sink);
    EXPECT_NEAR(share, more_attention.front(), 1e-12);
    const TwoStageBound bound = two_stage_bound(attention, l1, one, two, share);
    const TwoStageBound more_bound = two_stage_bound(more_attention, more_l1, more_one, more_two);
    EXPECT_NEAR(bound.mass, more_bound.mass, 1e-12);
    EXPECT_NEAR(bound.bound, more_bound.bound, 1e-9);
    EXPECT_NEAR(joint_eviction_error(attention, view(values), gone, share),
                joint_eviction_error(more_attention, view(more_values), more_gone), 1e-9);
  }
}

struct LayerAttentionTrace : testing::Test {
  static test::SyntheticTraceOptions options() {
    return test::SyntheticTraceOptions{.layers = 3,
                                       .head_dim = 8,
                                       .prompt_length = 60,
                                       .generated = 4,
                                       .block = 16,
                                       .logsumexp = false};
  }
  /// The states are the same whatever the layers say of themselves.
  std::unique_ptr<Trace> trace(const std::string& name, test::SyntheticTraceOptions wanted) const {
    test::write_synthetic_trace(folder_ / name, wanted);
    return std::make_unique<Trace>(folder_ / name);
  }
  static Replay replayed(const Trace& trace, const std::string& policy) {
    ReplayRequest request{.policy = parse_policy(policy), .budget = 8, .measures = {"all"}};
    return replay(trace, request, test::unwatched);
  }
  test::TemporaryFolder folder_;
};

TEST_F(LayerAttentionTrace, WhatIsWrittenIsRead) {
  test::SyntheticTraceOptions wanted = options();
  wanted.sliding_window = 20;
  wanted.layer_attributes.resize(3);
  wanted.layer_attributes[1].attention_softcap = 30.0;
  wanted.layer_attributes[1].sliding_window = 0;
  wanted.layer_attributes[1].rope_theta = 123.0;
  wanted.layer_attributes[1].rope_scaling = R"({"rope_type":"linear","factor":2.0})";
  wanted.layer_attributes[2].attention_scale = 0.25;
  wanted.layer_attributes[2].sliding_window = 7;
  wanted.layer_attributes[2].sink_logits = {0.5F, -1.0F, 2.0F, 3.0F};
  const auto open = trace("a.h5", wanted);
  EXPECT_EQ(open->window(0), 20);
  EXPECT_EQ(open->window(1), 0);
  EXPECT_EQ(open->window(2), 7);
  EXPECT_EQ(open->narrowest_reach(), Reach(7));
  EXPECT_FALSE(open->same_reach());
  EXPECT_EQ(window_text(*open),
            "window of 7 tokens in 1 of 3 layers, window of 20 tokens in 1 of 3 layers");
  EXPECT_TRUE(open->attention(0).of(1).plain());
  EXPECT_EQ(open->attention(0).scale, open->run().attention_scale);
  EXPECT_EQ(open->attention(1).softcap, 30.0);
  EXPECT_EQ(open->attention(2).scale, 0.25);
  EXPECT_EQ(open->attention(2).of(2).sink, 2.0);
  EXPECT_EQ(open->layer_model(0).rope_theta, open->model().rope_theta);
  EXPECT_EQ(open->layer_model(1).rope_theta, 123.0);
  EXPECT_THAT(open->layer_model(1).rope_scaling, HasSubstr("linear"));
  EXPECT_THROW(open->window(3), UsageError);
}

TEST_F(LayerAttentionTrace, ALayerReplaysAsInATraceWhoseLayersAreAllLikeIt) {
  test::SyntheticTraceOptions mixed = options();
  mixed.layer_attributes.resize(3);
  mixed.layer_attributes[1].sliding_window = 9;
  mixed.layer_attributes[2].attention_softcap = 1.0;
  mixed.layer_attributes[2].sink_logits = {0.5F, -1.0F, 2.0F, 3.0F};
  const auto open = trace("mixed.h5", mixed);
  EXPECT_THAT(replayed(*open, "h2o").notes,
              Contains(StartsWith("window of 9 tokens in 1 of 3 layers: entries")));
  EXPECT_EQ(window_note_in_brief(replayed(*open, "h2o").notes.back()),
            "window of 9 tokens in 1 of 3 layers");
  EXPECT_EQ(window_note_in_brief("h2o protects more: see there"), "");
  for (int layer = 0; layer < 3; ++layer) {
    SCOPED_TRACE(layer);
    test::SyntheticTraceOptions same = options();
    same.layer_attributes.assign(3, mixed.layer_attributes[layer]);
    const auto alike = trace("same" + std::to_string(layer) + ".h5", same);
    for (const std::string policy :
         {"h2o", "snapkv(8)", "tova+recent(10%)", "oracle(4)", "keydiff+critical", "h2o+caote"}) {
      SCOPED_TRACE(policy);
      const Replay a = replayed(*open, policy), b = replayed(*alike, policy);
      for (int head = 0; head < 2; ++head) {
        const HeadReplay &one = *a.find(layer, head), &other = *b.find(layer, head);
        EXPECT_EQ(one.reach, Reach(layer == 1 ? 9 : 0));
        EXPECT_EQ(one.evicted_at, other.evicted_at);
        for (std::size_t step = 0; step < one.steps.size(); ++step) {
          const auto& of = one.steps[step].query_heads;
          for (std::size_t q = 0; q < of.size(); ++q) {
            const auto& values = other.steps[step].query_heads[q].values;
            for (std::size_t i = 0; i < values.size(); ++i) {
              EXPECT_THAT(of[q].values[i], testing::NanSensitiveDoubleNear(values[i], 0.0));
            }
          }
        }
      }
    }
    EXPECT_EQ(sink_strength(*open, layer, 1, 0, test::unwatched),
              sink_strength(*alike, layer, 1, 0, test::unwatched));
    const auto reads = token_reads(*open, {{3, 4}}, test::unwatched);
    const auto reads_alike = token_reads(*alike, {{3, 4}}, test::unwatched);
    EXPECT_EQ(reads[static_cast<std::size_t>(layer) * 2].later,
              reads_alike[static_cast<std::size_t>(layer) * 2].later);
  }
}

TEST_F(LayerAttentionTrace, ASinkLogitTakesAttentionFromEveryEntry) {
  test::SyntheticTraceOptions with = options();
  with.layer_attributes.resize(3);
  for (LayerAttributes& layer : with.layer_attributes) layer.sink_logits.assign(4, 50.0F);
  const auto open = trace("sinks.h5", with);
  EXPECT_LT(sink_strength(*open, 0, 0, 0, test::unwatched), 1e-6F);
  EXPECT_GT(sink_strength(*trace("plain.h5", options()), 0, 0, 0, test::unwatched), 0.2F);
}

TEST_F(LayerAttentionTrace, ALayerWithoutRotationHasItsKeysBeforeRope) {
  test::SyntheticTraceOptions wanted = options();
  wanted.layer_attributes.resize(3);
  wanted.layer_attributes[1].rope_theta = 0.0;
  const auto open = trace("none.h5", wanted);
  std::vector<float> key = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> before = key;
  Rope(open->layer_model(1)).turn(std::span(key), 17.0);
  EXPECT_EQ(key, before);
  Rope(open->layer_model(0)).turn(std::span(key), 17.0);
  EXPECT_NE(key, before);
}

TEST(LayerAttentionRope, OnlyTheFirstCoordinatesTurn) {
  ModelInfo model{.head_dim = 8, .rotary_dim = 4};
  ModelInfo small = model;
  small.head_dim = 4;
  small.rotary_dim = 0;
  std::vector<float> key = {1, 2, 3, 4, 5, 6, 7, 8}, part = {1, 2, 3, 4};
  Rope(model).turn(std::span(key), 5.0);
  Rope(small).turn(std::span(part), 5.0);
  for (std::size_t c = 0; c < 8; ++c) {
    EXPECT_EQ(key[c], c < 4 ? part[c] : static_cast<float>(c + 1)) << c;
  }
  EXPECT_EQ(Rope(model).pairs(), 2U);
}

}  // namespace
}  // namespace kvloupe
