// One layer's replay, states in memory, one thread: the demo model's shape with and without
// metrics, and one head of a large model without.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include "analysis/replay/layer_replay.h"
#include "tests/support/synthetic_trace.h"

namespace kvloupe {
namespace {

void replay_one_layer(benchmark::State& state, const char* spec,
                      const test::SyntheticTraceOptions& options, int budget, bool metrics) {
  openblas_set_num_threads(1);
  const test::SyntheticStates made = test::make_synthetic_states(options);
  LayerStates states;
  states.keys = made.key[0];
  states.queries = made.query[0];
  states.values = made.value[0];
  states.output_weights = made.output_weight[0];
  const std::vector<float> ones(static_cast<std::size_t>(options.prompt_length), 1.0F);
  states.value_norms_l1.assign(states.queries.size(), ones);  // any norms: only time is measured
  states.value_norms_l2 = states.value_norms_l1;
  const std::vector<Block> blocks = make_blocks(options.prompt_length, 0, options.block);
  const PolicySpec policy = parse_policy(spec);
  LayerContext context;
  context.model = made.model;
  context.attention_scale = made.run.attention_scale;
  context.budget = budget;
  context.output_weights = states.output_weights;
  for (auto _ : state) {
    Progress progress;
    benchmark::DoNotOptimize(replay_layer({states, blocks, policy, context, metrics}, progress));
  }
}

void replay_demo(benchmark::State& state, const char* spec, bool metrics) {
  test::SyntheticTraceOptions options;
  options.layers = 1;
  options.query_heads = 8;
  options.heads = 4;
  options.head_dim = 32;
  options.hidden_size = 256;
  options.prompt_length = 4096;
  options.generated = 0;
  options.block = 128;
  replay_one_layer(state, spec, options, 512, metrics);
}
BENCHMARK_CAPTURE(replay_demo, keydiff, "keydiff", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_demo, tova, "tova", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_demo, snapkv, "snapkv", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_demo, h2o, "h2o", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_demo, snapkv_adakv, "snapkv+adakv", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_demo, tova_caote, "tova+caote", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_demo, oracle, "oracle", false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_demo, keydiff_metrics, "keydiff", true)->Unit(benchmark::kMillisecond);

void replay_large_head(benchmark::State& state, const char* spec) {
  test::SyntheticTraceOptions options;
  options.layers = 1;
  options.query_heads = 4;
  options.heads = 1;
  options.head_dim = 128;
  options.hidden_size = 8;
  options.prompt_length = 8192;
  options.generated = 0;
  options.block = 128;
  replay_one_layer(state, spec, options, 2048, false);
}
BENCHMARK_CAPTURE(replay_large_head, keydiff, "keydiff")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head, tova, "tova")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head, snapkv, "snapkv")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head, h2o, "h2o")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head, snapkv_critical, "snapkv+critical")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head, tova_caote, "tova+caote")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head, tova_fastcaote, "tova+fastcaote")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head, expr, "expr(\"rank(attn_last) - rank(cos_anchor)\")")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvloupe
