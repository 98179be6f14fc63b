// The cost of a policy in the cache beside the full cache at equal cache size, the cost of writing
// a trace beside the same prefill without, and the time of a prefill beside its bare matrix
// products. The demo model's shape with random weights.
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include <cmath>
#include <filesystem>
#include <optional>

#include "capture/eval/eval_run.h"
#include "capture/run/compute.h"
#include "capture/run/layer_writer.h"
#include "capture/run/model_description.h"
#include "capture/run/predictions.h"
#include "tests/bench/resources.h"

namespace kvloupe {
namespace {

constexpr int kEntries = 512;  // N
constexpr int kBlock = 128;    // B

ModelConfig config() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.num_layers = 4;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 32;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.vocab_size = 1350;
  config.rope_theta = 500000.0;
  config.layers.resize(4);
  for (LayerConfig& layer : config.layers) layer.rope_theta = config.rope_theta;
  config.attention_scale = 1.0 / std::sqrt(32.0);
  config.tied_head = true;
  return config;
}

Transformer random_model(at::ScalarType type) {
  at::manual_seed(1);
  Weights weights;
  for (const WeightShape& expected : weight_shapes(config())) {
    const bool norm = expected.shape.size() == 1;
    const at::Tensor weight = norm ? at::ones(expected.shape) : at::randn(expected.shape) * 0.06;
    weights.emplace(expected.name, weight.to(type));
  }
  return Transformer(config(), std::move(weights));
}

const Transformer& model(at::ScalarType type = at::kFloat) {
  static const Transformer wide = random_model(at::kFloat);
  static const Transformer narrow = random_model(at::kBFloat16);
  return type == at::kFloat ? wide : narrow;
}

std::vector<std::int32_t> random_ids(int count) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back((i * 7919 + i * i * 31) % 1350);
  return ids;
}

EvalRun::Options options_for(const std::string& policy, int most) {
  EvalRun::Options options;
  options.most_tokens = most;
  options.block = kBlock;
  if (policy != "full") options.loop = ClosedLoop{parse_policy(policy), kEntries, {}};
  return options;
}

/// One step of `m` tokens on a cache of kEntries entries: a block of a prompt, or one token.
void step(benchmark::State& state, const std::string& policy, int m) {
  const c10::InferenceMode no_gradients;
  const ModelInfo info = describe_model(config(), "bench");
  const Progress progress;
  const std::vector<std::int32_t> ids = random_ids(kEntries + 100000);
  std::optional<EvalRun> run;
  int since = 0;
  for (auto _ : state) {
    if (!run || since * m >= kBlock) {  // so that the full cache is nearly as small
      run.emplace(model(), info, options_for(policy, kEntries + 2 * kBlock));
      run->read(std::span(ids).first(kEntries), true, progress);
      since = 0;
    }
    const double start = processor_seconds();
    run->read(std::span(ids).subspan(static_cast<std::size_t>(run->length()),
                                     static_cast<std::size_t>(m)),
              true, progress);
    state.SetIterationTime(processor_seconds() - start);
    ++since;
  }
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * m), benchmark::Counter::kIsRate);
}

/// A prompt of 1024 tokens without a trace: states, attention, predictions.
void prefill(benchmark::State& state, at::ScalarType type) {
  const c10::InferenceMode no_gradients;
  const ModelInfo info = describe_model(config(), "bench");
  const Progress progress;
  const std::vector<std::int32_t> ids = random_ids(1024);
  for (auto _ : state) {
    EvalRun run(model(type), info, options_for("full", 1024));
    run.read(ids, true, progress, [&](int layer, int first, const at::Tensor& hidden) {
      if (layer + 1 < info.num_layers) return;
      benchmark::DoNotOptimize(
          predict(model(type), hidden, first, 5,
                  std::span(ids).subspan(static_cast<std::size_t>(first) + 1)));
    });
  }
}

/// The same with its trace; `keep_rows`: the attention matrices too.
void captured_prefill(benchmark::State& state, at::ScalarType type, Storage storage,
                      bool keep_rows) {
  const c10::InferenceMode no_gradients;
  const ModelInfo info = describe_model(config(), "bench");
  const Progress progress;
  const std::vector<std::int32_t> ids = random_ids(1024);
  const auto target = std::filesystem::temp_directory_path() / "kvloupe_bench.h5";
  for (auto _ : state) {
    RunInfo run{.block_size = kBlock,
                .prompt_length = 1024,
                .attention_scale = model(type).attention_scale()};
    TraceWriterOptions writing;
    writing.store_f32 = storage == Storage::float32;
    writing.store_attention = keep_rows;
    TraceWriter writer(target, info, run, writing);
    LayerWriter layers(model(type), storage, false, writer);
    for (int layer = 0; layer < info.num_layers; ++layer) layers.write_output_weight(layer);
    BlockRunner::Options options;
    options.most_tokens = 1024;
    options.storage = storage;
    options.keep_rows = keep_rows;
    BlockRunner runner(model(type), options);
    for (const Block& block : make_blocks(1024, 0, kBlock)) {
      const at::Tensor hidden = runner.run(
          std::span(ids).subspan(static_cast<std::size_t>(block.first),
                                 static_cast<std::size_t>(block.size())),
          [&](const LayerStep& at_layer) { layers.write(at_layer); }, progress);
      const Predictions predictions =
          predict(model(type), hidden, block.first, 5,
                  std::span(ids).subspan(static_cast<std::size_t>(block.first) + 1));
      writer.write_predictions(block.first, block.size(), predictions.ids, predictions.logprobs);
    }
    layers.finish();
    writer.finish(run, {ids, {}, {}, {}}, make_blocks(1024, 0, kBlock), {});
  }
  std::filesystem::remove(target);
}

/// The products of that prefill alone, as libtorch makes them.
void products(benchmark::State& state) {
  const c10::InferenceMode no_gradients;
  const ModelConfig shape = config();
  const at::Tensor x = at::randn({kBlock, shape.hidden_size});
  const at::Tensor wide = at::randn({kBlock, shape.intermediate_size});
  std::vector<at::Tensor> keys;
  for (auto _ : state) {
    for (int first = 0; first < 1024; first += kBlock) {
      const std::int64_t n = first + kBlock;
      for (int layer = 0; layer < shape.num_layers; ++layer) {
        const auto weight = [&](const char* part) {
          return model().weight("model.layers." + std::to_string(layer) + "." + part + ".weight");
        };
        for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj"}) {
          benchmark::DoNotOptimize(at::linear(x, weight(part)));
        }
        benchmark::DoNotOptimize(at::linear(wide, weight("mlp.down_proj")));
        const at::Tensor queries = x.view({shape.num_kv_heads, -1, shape.head_dim});
        const at::Tensor cached = at::ones({shape.num_kv_heads, n, shape.head_dim});
        const at::Tensor rows = at::matmul(queries, cached.transpose(1, 2));
        benchmark::DoNotOptimize(at::matmul(rows, cached));
      }
      benchmark::DoNotOptimize(at::linear(x, model().head_weight()));
    }
  }
}

#define STEP(name, policy)                              \
  BENCHMARK_CAPTURE(step, name##_block, policy, kBlock) \
      ->UseManualTime()                                 \
      ->Unit(benchmark::kMillisecond);                  \
  BENCHMARK_CAPTURE(step, name##_token, policy, 1)->UseManualTime()->Unit(benchmark::kMillisecond)
STEP(full, "full");
STEP(sink, "sink");
STEP(tova, "tova");
STEP(keydiff, "keydiff");
STEP(snapkv, "snapkv");
STEP(h2o, "h2o");
STEP(snapkv_caote, "snapkv+caote");
STEP(h2o_kvmerger, "h2o+kvmerger");
BENCHMARK_CAPTURE(prefill, f32, at::kFloat)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prefill, bf16, at::kBFloat16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(captured_prefill, f32_as_f32, at::kFloat, Storage::float32, false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(captured_prefill, f32_as_f16, at::kFloat, Storage::float16, false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(captured_prefill, bf16_as_f16, at::kBFloat16, Storage::float16, false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(captured_prefill, bf16_as_f16_with_attention, at::kBFloat16, Storage::float16,
                  true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(products)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvloupe

int main(int argc, char** argv) {
  kvloupe::use_threads(1, at::kCPU, at::kFloat);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
