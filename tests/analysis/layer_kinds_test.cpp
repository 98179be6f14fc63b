// Traces whose layers differ (format version 2): layers without a cache, other numbers of heads,
// other widths, values that are a part of the keys, shared caches, gates.

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <limits>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/measure_replay.h"
#include "analysis/replay/replay.h"
#include "analysis/trace/cache_bytes.h"
#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/trace_writer.h"
#include "tests/naive/compare_replay.h"
#include "tests/naive/naive_asked.h"
#include "tests/support/made_layer.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

constexpr int kKindsPrompt = 64, kKindsGenerated = 4, kKindsTokens = kKindsPrompt + kKindsGenerated;

/// One layer of the made-up trace; `made`: its states, of one layer.
struct MadeLayer {
  LayerAttributes attributes;
  test::SyntheticStates made;
};

test::SyntheticTraceOptions options_of(int query_heads, int heads, int key_dim, int value_dim,
                                       std::uint64_t seed) {
  test::SyntheticTraceOptions options;
  options.layers = 1;
  options.query_heads = query_heads;
  options.heads = heads;
  options.head_dim = key_dim;
  options.value_dim = value_dim;
  options.hidden_size = 12;
  options.prompt_length = kKindsPrompt;
  options.generated = kKindsGenerated;
  options.seed = seed;
  return options;
}

/// 0: Mamba; 1: attention as in /model; 2: latent; 3: other heads and widths, with a gate; 4: reads
/// the cache of 1.
std::vector<MadeLayer> made_layers() {
  std::vector<MadeLayer> layers(5);
  layers[0].attributes.kind = LayerKind::none;
  layers[0].attributes.mixer = "Mamba-2";
  layers[0].attributes.state_bytes = 4096;
  layers[1].made = test::make_synthetic_states(options_of(4, 2, 8, 0, 11));
  layers[2].made = test::make_synthetic_states(options_of(4, 1, 12, 8, 12));
  layers[2].made.value[0][0] = layers[2].made.key[0][0].leftCols(8);
  LayerAttributes& latent = layers[2].attributes;
  latent.kind = LayerKind::latent;
  latent.key_dim = 12;
  latent.value_dim = 8;
  latent.value_is_key_prefix = true;
  latent.rotary_start = 8;
  latent.rotary_dim = 4;
  latent.attention_scale = layers[2].made.run.attention_scale;
  layers[3].made = test::make_synthetic_states(options_of(6, 3, 6, 10, 13));
  LayerAttributes& wide = layers[3].attributes;
  wide.num_heads = 6;
  wide.num_kv_heads = 3;
  wide.key_dim = 6;
  wide.value_dim = 10;
  wide.gate = true;
  wide.attention_scale = layers[3].made.run.attention_scale;
  layers[4].made = test::make_synthetic_states(options_of(4, 2, 8, 0, 14));
  layers[4].made.key = layers[1].made.key;
  layers[4].made.value = layers[1].made.value;
  layers[4].attributes.kind = LayerKind::shared;
  layers[4].attributes.shares_with = 1;
  return layers;
}

std::vector<float> slab(const std::vector<Matrix>& heads, int first, int m) {
  std::vector<float> result;
  for (const Matrix& head : heads) {
    const float* begin = head.data() + first * head.cols();
    result.insert(result.end(), begin, begin + m * head.cols());
  }
  return result;
}

void write(const std::filesystem::path& target, const std::vector<MadeLayer>& layers) {
  const test::SyntheticStates plain = test::make_synthetic_states(options_of(4, 2, 8, 0, 11));
  ModelInfo model = plain.model;
  model.num_layers = static_cast<int>(layers.size());
  const RunInfo& run = plain.run;
  TraceWriterOptions options;
  options.store_f32 = true;
  for (const MadeLayer& layer : layers) options.layers.push_back(layer.attributes);
  TraceWriter writer(target, model, run, options);
  const std::vector<Block> blocks = make_blocks(kKindsPrompt, kKindsGenerated, 16);
  for (int l = 0; l < model.num_layers; ++l) {
    const MadeLayer& layer = layers[static_cast<std::size_t>(l)];
    const LayerAttributes& said = layer.attributes;
    if (said.kind == LayerKind::none) continue;
    writer.write_output_weight(
        l, slab(layer.made.output_weight[0], 0, layer.made.model.value_width()));
    for (const Block& block : blocks) {
      const int m = block.size();
      const bool stores = said.kind != LayerKind::shared;
      const auto states = [&](const std::vector<Matrix>& heads, bool there) {
        return there ? slab(heads, block.first, m) : std::vector<float>();
      };
      writer.write_states(l, block.first, m, states(layer.made.query[0], true),
                          states(layer.made.key[0], stores),
                          states(layer.made.value[0], stores && !said.value_is_key_prefix));
      if (!said.gate) continue;
      std::vector<float> gate;
      for (int token = block.first; token < block.end; ++token) {
        for (int q = 0; q < *said.num_heads; ++q) {
          const Matrix one = test::made_gate(kKindsTokens, *said.value_dim, q);
          gate.insert(gate.end(), one.row(token).begin(), one.row(token).end());
        }
      }
      writer.write_gate(l, block.first, m, gate);
    }
  }
  TokenTable tokens;
  for (int i = 0; i < kKindsTokens; ++i) tokens.ids.push_back(i % 50);
  writer.finish(run, tokens, blocks, {});
}

class LayerKinds : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new test::TemporaryFolder;
    write(path(), made_layers());
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
    try {
      work();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([&] { trace_->key(0, 0); }).find("layer 0"), std::string::npos);
  EXPECT_NE(message([&] { trace_->query(0, 0); }).find("Mamba-2"), std::string::npos);
  ReplayRequest request;
  request.layers = {0};
  request.budget = 9;
  Progress progress;
  EXPECT_NE(message([&] { replay(*trace_, request, progress); }).find("nothing to evict"),
            std::string::npos);
}

/// Specs of all policies that a trace alone can be replayed with, one variant each.
std::vector<PolicySpec> all_policies() {
  std::vector<PolicySpec> specs;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (entry.traits.reads_probe || entry.example.find('"') != std::string::npos) continue;
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
  ReplayRequest request;
  request.policy = policy;
  request.budget = budget;
  request.block = 16;
  request.metrics = metrics;
  Progress progress;
  return replay(trace, request, progress);
}

// The naive twin gets each layer's states and shape alone; what all layers share (budgets by layer)
// it does not know, so such policies are compared below.
TEST_F(LayerKinds, EveryPolicyAgreesWithItsTwinInEachLayer) {
  long decisions = 0;
  for (const PolicySpec& policy : all_policies()) {
    bool alone = true;
    for (const SpecPart& part : policy.parts) {
      const PolicyEntry& entry = *find_policy(part.name);
      if (entry.as<LayerBudgetBuilder>() != nullptr || entry.traits.reads_sequence) alone = false;
      if (entry.traits.budget_is_outcome || entry.traits.needs_future) alone = false;
    }
    if (!alone) continue;
    const Replay fast = replayed(*trace_, policy, 20, true);
    for (const int layer : trace_->storing_layers()) {
      const LayerStates states = load_layer_states(*trace_, layer);
      const naive::Comparison found =
          naive::compare(fast, layer, states, trace_->layer_model(layer), trace_->attention(layer));
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
  write(plain, {layers[1], layers[2], layers[3]});
  const Trace a(plain);
  const Trace& b = *trace_;
  int compared = 0;
  for (const PolicySpec& policy : all_policies()) {
    const std::string text = policy.text();
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
    Progress progress;
    const AskedReplay answer = ask(*trace_, made, Asked::later, {}, progress);
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
  write(plain, without);
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
  try {
    const Trace trace(copy);
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
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
  expect("/layers/1", "chunk_size", 16, nullptr, {"layer 1", "chunks of 16"});
  expect("/", "format_version", 3, nullptr, {"format_version 3", "newer"});
  EXPECT_EQ(refusal(path(), copy, "/layers/1", "chunk_size", kKindsTokens), "");  // hides nothing
}

TEST_F(LayerKinds, ATraceThatNeedsNothingNewIsVersionOne) {
  const auto plain = *folder_ / "one.h5";
  test::write_synthetic_trace(plain, {});
  const auto kinds = *folder_ / "two.h5";
  write(kinds, made_layers());
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
