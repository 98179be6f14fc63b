// One layer's replay, states in memory, one thread: the demo model's shape with and without
// metrics, one head of a large model without, the naive twin beside it, and scrubbing through a
// finished replay.
#include <cblas.h>

#include <optional>
#include <string>

#include "analysis/policy/kit/sequence_tables.h"
#include "analysis/replay/layer_replay.h"
#include "tests/bench/each_policy.h"
#include "tests/naive/naive_replay.h"
#include "tests/support/made_layer.h"
#include "tests/support/synthetic_trace.h"

namespace kvloupe {
namespace {

/// One layer's states, its steps and how they are read.
struct Prepared {
  LayerStates states;
  std::vector<Block> blocks;
  LayerContext context;

  Prepared(const test::SyntheticTraceOptions& options, int budget) {
    openblas_set_num_threads(1);
    const test::SyntheticStates made = test::make_synthetic_states(options);
    states = test::made_layer(made, 0);
    const std::vector<float> ones(static_cast<std::size_t>(options.prompt_length), 1.0F);
    states.value_norms_l1.assign(states.queries.size(), ones);  // any norms: only time is measured
    states.value_norms_l2 = states.value_norms_l1;
    blocks = make_blocks(options.prompt_length, 0, options.block);
    context.model = made.model;
    context.attention = made.run.attention_scale;
    context.budget = budget;
    context.output_weights = states.output_weights;
  }
  std::vector<HeadReplay> run(const PolicySpec& policy, bool metrics) const {
    Progress progress;
    return replay_layer({states, blocks, policy, context, metrics}, progress);
  }
};

void replay_one_layer(benchmark::State& state, const char* spec,
                      const test::SyntheticTraceOptions& options, int budget, bool metrics) {
  const Prepared prepared(options, budget);
  const PolicySpec policy = parse_policy(spec);
  for (auto _ : state) benchmark::DoNotOptimize(prepared.run(policy, metrics));
  state.counters["a_step"] = benchmark::Counter(
      static_cast<double>(prepared.blocks.size()),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void replay_demo(benchmark::State& state, const char* spec, bool metrics) {
  test::SyntheticTraceOptions options{.layers = 1,
                                      .query_heads = 8,
                                      .heads = 4,
                                      .head_dim = 32,
                                      .hidden_size = 256,
                                      .prompt_length = 4096,
                                      .generated = 0,
                                      .block = 128};
  replay_one_layer(state, spec, options, 512, metrics);
}
const bool of_the_demo = for_each_policy(
    "replay_demo", {"keydiff", "tova", "snapkv", "h2o", "snapkv+adakv", "tova+caote", "oracle"},
    [](benchmark::State& state, const char* spec) { replay_demo(state, spec, false); });
BENCHMARK_CAPTURE(replay_demo, keydiff_metrics, "keydiff", true)->Unit(benchmark::kMillisecond);

/// T tokens over one key-value head with four query heads.
test::SyntheticTraceOptions large_head(int tokens) {
  return test::SyntheticTraceOptions{.layers = 1,
                                     .query_heads = 4,
                                     .heads = 1,
                                     .head_dim = 128,
                                     .hidden_size = 8,
                                     .prompt_length = tokens,
                                     .generated = 0,
                                     .block = 128};
}

void replay_large_head(benchmark::State& state, const char* spec) {
  replay_one_layer(state, spec, large_head(8192), 2048, false);
}
const bool of_a_large_head = for_each_policy("replay_large_head",
                                             {"keydiff",
                                              "tova",
                                              "snapkv",
                                              "h2o",
                                              "expected",
                                              "qfilter",
                                              "lagkv",
                                              "noncausal(128)",
                                              "leverage",
                                              "compactor(chunk=128)",
                                              "cur",
                                              "capkv",
                                              "dropkv",
                                              "rkv",
                                              "defensive",
                                              "vatp",
                                              "triattention",
                                              "cakescore",
                                              "lavascore",
                                              "snapkv+critical",
                                              "tova+caote",
                                              "tova+fastcaote",
                                              "expr(\"rank(attn_last) - rank(cos_anchor)\")"},
                                             replay_large_head);

/// A second reading of the large head's tokens, as many at a time as `part`, after a request of 16
/// tokens: any states, for only time is measured.
class MadeProbe : public ProbeSource {
 public:
  MadeProbe(const Prepared& prepared, int part) : model_(prepared.context.model) {
    const Matrix& keys = prepared.states.keys.front();
    const int length = static_cast<int>(keys.rows());
    ProbeInfo info;
    info.kind = "repeat";
    info.context_end = length;
    for (int first = 0; first < length; first += part) {
      const int begin = info.tokens();
      info.ids.insert(info.ids.end(), static_cast<std::size_t>(part + 16), 0);
      info.passes.push_back({{begin, info.tokens()}, {first, first + part}});
    }
    const auto again = [&](const Matrix& states) {
      Matrix rows(info.tokens(), states.cols());
      for (Eigen::Index row = 0; row < rows.rows(); ++row) {
        rows.row(row) = states.row((row * 7 + 3) % length);
      }
      return rows;
    };
    states_.model = model_;
    states_.attention = prepared.context.attention;
    states_.keys = {keys};
    states_.own_keys = {again(keys)};
    for (const Matrix& queries : prepared.states.queries) states_.queries.push_back(again(queries));
    info_ = info;
  }
  const ModelInfo& model() const override { return model_; }
  const std::optional<ProbeInfo>& info() const override { return info_; }
  LayerProbe layer(int /*layer*/, LayerProbeParts /*parts*/) const override { return states_; }
  std::string name() const override { return {}; }

 private:
  ModelInfo model_;
  std::optional<ProbeInfo> info_;
  LayerProbe states_;
};

/// The scores of the probe, and the replay with them.
void replay_large_head_probe(benchmark::State& state, const char* spec, int part) {
  Prepared prepared(large_head(8192), 2048);
  const MadeProbe probe(prepared, part);
  const PolicySpec policy = parse_policy(spec);
  for (auto _ : state) {
    const SequenceTables tables(probe, nullptr);
    prepared.context.sequence = &tables;
    benchmark::DoNotOptimize(prepared.run(policy, false));
  }
}
BENCHMARK_CAPTURE(replay_large_head_probe, kvzip, "kvzip", 2048)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head_probe, kvcompose, "kvcompose", 8192)
    ->Unit(benchmark::kMillisecond);

/// The same head in a model that sees its last 2048 tokens.
void replay_windowed_head(benchmark::State& state, const char* spec) {
  test::SyntheticTraceOptions options = large_head(8192);
  options.sliding_window = 2048;
  replay_one_layer(state, spec, options, 1024, false);
}
const bool of_a_windowed_head =
    for_each_policy("replay_windowed_head", {"keydiff", "tova", "h2o"}, replay_windowed_head);

/// How a step grows: /T/N.
void replay_growth(benchmark::State& state, const char* spec) {
  replay_one_layer(state, spec, large_head(static_cast<int>(state.range(0))),
                   static_cast<int>(state.range(1)), false);
}
void growth_arguments(benchmark::internal::Benchmark* bench) {
  for (const int tokens : {4096, 8192, 16384}) bench->Args({tokens, 1024});
  for (const int budget : {512, 2048}) bench->Args({8192, budget});
  bench->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(replay_growth, keydiff, "keydiff")->Apply(growth_arguments);
BENCHMARK_CAPTURE(replay_growth, tova, "tova")->Apply(growth_arguments);
BENCHMARK_CAPTURE(replay_growth, snapkv, "snapkv")->Apply(growth_arguments);
BENCHMARK_CAPTURE(replay_growth, h2o, "h2o")->Apply(growth_arguments);

/// The same replay by the engine (/0) and by its naive twin in double (/1), where that ends in
/// reasonable time: T = 1024, N = 256.
void replay_twin(benchmark::State& state, const char* spec) {
  const Prepared prepared(large_head(1024), 256);
  const PolicySpec policy = parse_policy(spec);
  for (auto _ : state) {
    if (state.range(0) == 0) {
      benchmark::DoNotOptimize(prepared.run(policy, false));
      continue;
    }
    naive::NaiveReplay twin(prepared.states, prepared.context.model,
                            prepared.context.attention.scale, 0, policy, prepared.context.budget);
    for (const Block& block : prepared.blocks) benchmark::DoNotOptimize(twin.step(block));
  }
}
void both(benchmark::internal::Benchmark* bench) {
  bench->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(replay_twin, keydiff, "keydiff")->Apply(both);
BENCHMARK_CAPTURE(replay_twin, tova, "tova")->Apply(both);
BENCHMARK_CAPTURE(replay_twin, snapkv, "snapkv")->Apply(both);
BENCHMARK_CAPTURE(replay_twin, snapkv_critical, "snapkv+critical")->Apply(both);
BENCHMARK_CAPTURE(replay_twin, h2o, "h2o")->Apply(both);

/// The request of the window to a finished replay when the step under the cursor changes: /T.
void scrub(benchmark::State& state) {
  test::SyntheticTraceOptions options = large_head(static_cast<int>(state.range(0)));
  options.head_dim = 8;
  Replay replay;
  {
    const Prepared prepared(options, options.prompt_length / 4);
    replay.blocks = prepared.blocks;
    replay.heads = prepared.run(parse_policy("random"), false);
  }
  int step = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(replay.tokens_at(replay.heads[0], step));
    benchmark::DoNotOptimize(replay.retained_at(replay.heads[0], step));
    step = (step + 1) % static_cast<int>(replay.blocks.size());
  }
}
BENCHMARK(scrub)->Arg(8192)->Arg(32768)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvloupe
