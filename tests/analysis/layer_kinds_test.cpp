// Traces whose layers differ (format version 2): layers without a cache, other numbers of heads,
// other widths, values that are a part of the keys, shared caches, gates.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <map>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/trace_size.h"
#include "analysis/trace/trace_writer.h"
#include "tests/naive/compare_replay.h"
#include "tests/naive/naive_asked.h"
#include "tests/support/error_of.h"
#include "tests/support/kinds_trace.h"
#include "tests/support/made_layer.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

using test::kKindsGenerated;
using test::kKindsPrompt;
using test::kKindsTokens;
using test::made_layers;
using test::MadeLayer;

class LayerKinds : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    test::write_kinds_trace(path(), made_layers());
    trace_ = new Trace(path());
  }
  static void TearDownTestSuite() {
    delete trace_;
    delete folder_;
  }
  static std::filesystem::path path() { return *folder_ / "kinds.h5"; }
  static test::TemporaryFolder* folder_;
  static Trace* trace_;
};
test::TemporaryFolder* LayerKinds::folder_ = nullptr;
Trace* LayerKinds::trace_ = nullptr;

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
    const test::SyntheticStates& made = layers[static_cast<std::size_t>(layer)].made;
    for (int head = 0; head < trace.layer_model(layer).num_kv_heads; ++head) {
      const auto h = static_cast<std::size_t>(head);
      EXPECT_EQ(trace.key(layer, head), made.key[0][h]) << layer;
      EXPECT_EQ(trace.value(layer, head), made.value[0][h]) << layer;
    }
    for (int q = 0; q < trace.layer_model(layer).num_heads; ++q) {
      EXPECT_EQ(trace.query(layer, q), made.query[0][static_cast<std::size_t>(q)]);
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
std::string refusal(const std::filesystem::path& from, const std::filesystem::path& copy,
                    const char* group, const char* attribute, std::int64_t number,
                    const char* text = nullptr) {
  std::filesystem::copy_file(from, copy, std::filesystem::copy_options::overwrite_existing);
  const hid_t file = H5Fopen(copy.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  if (H5Aexists_by_name(file, group, attribute, H5P_DEFAULT) > 0)
    H5Adelete_by_name(file, group, attribute, H5P_DEFAULT);
  const hid_t space = H5Screate(H5S_SCALAR);
  hid_t type = H5T_NATIVE_INT64;
  if (text != nullptr) {
    type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, std::string_view(text).size() + 1);
  }
  const hid_t id =
      H5Acreate_by_name(file, group, attribute, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (text != nullptr) {
    H5Awrite(id, type, text);
    H5Tclose(type);
  } else {
    H5Awrite(id, type, &number);
  }
  H5Aclose(id);
  H5Sclose(space);
  H5Fclose(file);
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
  const auto version = [](const std::filesystem::path& path) {
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

}  // namespace
}  // namespace kvloupe
