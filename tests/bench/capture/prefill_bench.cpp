// A capture of a model too large for a benchmark loop: 16 layers, width 2048, 16 query heads on 4
// heads of 128, a prompt of 2048 tokens (or TOKENS, in blocks of 128). Its bare matrix products,
// the prefill without a trace and the capture follow one another in one process; processor time,
// wall time and peak memory of each.
//
//   kvloupe_prefill_bench FOLDER [THREADS [TOKENS [large|small]]]
//
// FOLDER is given a checkpoint of random weights (3.4 GB, kept) and the trace. small: the shape of
// SmolLM2-135M (0.5 GB).
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "analysis/base/core/error.h"
#include "analysis/trace/trace.h"
#include "capture/checkpoint/safetensors.h"
#include "capture/model/load_transformer.h"
#include "capture/run/block_runner.h"
#include "capture/run/capture.h"
#include "capture/run/compute.h"
#include "capture/run/predictions.h"
#include "tests/bench/resources.h"
#include "tests/capture/whole_model.h"

namespace kvloupe {
namespace {

constexpr int kBlock = 128;

const nlohmann::json kLarge{{"architectures", {"LlamaForCausalLM"}},
                            {"num_hidden_layers", 16},
                            {"num_attention_heads", 16},
                            {"num_key_value_heads", 4},
                            {"head_dim", 128},
                            {"hidden_size", 2048},
                            {"intermediate_size", 5632},
                            {"vocab_size", 32000},
                            {"rms_norm_eps", 1e-5},
                            {"rope_theta", 500000.0},
                            {"tie_word_embeddings", false}};
const nlohmann::json kSmall{{"architectures", {"LlamaForCausalLM"}},
                            {"num_hidden_layers", 30},
                            {"num_attention_heads", 9},
                            {"num_key_value_heads", 3},
                            {"head_dim", 64},
                            {"hidden_size", 576},
                            {"intermediate_size", 1536},
                            {"vocab_size", 49152},
                            {"rms_norm_eps", 1e-5},
                            {"rope_theta", 100000.0},
                            {"tie_word_embeddings", true}};

/// Random weights, one shard for about every layer, so that few are in memory at once.
void write_checkpoint(const std::filesystem::path& folder, const nlohmann::json& shape) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "config.json") << shape.dump();
  const ModelConfig config = read_model_config(folder);
  at::manual_seed(1);
  nlohmann::json index;
  std::vector<std::pair<std::string, at::Tensor>> shard;
  int shards = 0;
  const auto flush = [&] {
    const std::string name = fmt::format("model-{:02}.safetensors", ++shards);
    write_safetensors(folder / name, shard);
    for (const auto& [weight, tensor] : shard) index["weight_map"][weight] = name;
    shard.clear();
  };
  for (const WeightShape& expected : weight_shapes(config)) {
    const bool norm = expected.shape.size() == 1;
    shard.emplace_back(expected.name,
                       norm ? at::ones(expected.shape) : at::randn(expected.shape).mul_(0.02));
    if (shard.size() == 9) flush();
  }
  if (!shard.empty()) flush();
  std::ofstream(folder / "model.safetensors.index.json") << index.dump();
}

void measure(const char* name, const std::function<void()>& work) {
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  const auto start = std::chrono::steady_clock::now();
  const double processor = processor_seconds();
  work();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  fmt::print("{:28} {:8.1f} s of processor {:8.1f} s wall, peak {:5} MB\n", name,
             processor_seconds() - processor, wall.count(), peak_memory());
  std::fflush(stdout);
}

/// Every product of the prefill and nothing else, as libtorch makes them.
void products(const Transformer& model, int tokens) {
  const ModelConfig& shape = model.config();
  const at::Tensor x = at::randn({kBlock, shape.hidden_size});
  const at::Tensor wide = at::randn({kBlock, shape.intermediate_size});
  const at::Tensor queries =
      at::randn({shape.num_kv_heads, shape.group_size() * kBlock, shape.head_dim});
  const at::Tensor cache = at::randn({shape.num_kv_heads, tokens, shape.head_dim});
  for (int end = kBlock; end <= tokens; end += kBlock) {
    const at::Tensor seen = cache.slice(1, 0, end);
    for (int layer = 0; layer < shape.num_layers; ++layer) {
      const auto product = [&](const at::Tensor& input, const char* part) {
        at::linear(input, model.weight(fmt::format("model.layers.{}.{}.weight", layer, part)));
      };
      for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                               "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj"}) {
        product(x, part);
      }
      product(wide, "mlp.down_proj");
      at::matmul(at::matmul(queries, seen.transpose(1, 2)), seen);
    }
    at::linear(x, model.head_weight());
  }
}

void prefill(const Transformer& model, std::span<const std::int32_t> ids) {
  const auto tokens = static_cast<int>(ids.size());
  BlockRunner::Options options;
  options.most_tokens = tokens;
  options.storage = Storage::float32;
  BlockRunner runner(model, options);
  for (const Block& block : make_blocks(tokens, 0, kBlock)) {
    const at::Tensor hidden = runner.run(
        ids.subspan(static_cast<std::size_t>(block.first), static_cast<std::size_t>(block.size())),
        [](const LayerStep&) {}, Progress());
    predict(model, hidden, block.first, 5, ids.subspan(static_cast<std::size_t>(block.first) + 1));
  }
}

class Silent : public CaptureObserver {
  void on_tokens(int, int, int) override {}
  void on_note(const std::string&) override {}
};

void bench(const std::filesystem::path& folder, int threads, int tokens,
           const nlohmann::json& shape) {
  const c10::InferenceMode no_gradients;
  fmt::print("{} threads\n", use_threads(threads, at::kCPU, at::kFloat));
  if (!std::filesystem::exists(folder / "model.safetensors.index.json"))
    write_checkpoint(folder, shape);
  std::vector<std::int32_t> ids;
  std::ofstream text(folder / "ids.txt");
  for (int i = 0; i < tokens; ++i) {
    ids.push_back((i * 7919 + i * i * 31) % 32000);
    text << ids.back() << ' ';
  }
  text.close();
  std::uintmax_t weights = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".safetensors") weights += file.file_size();
  }
  const ModelConfig config = read_model_config(folder);
  fmt::print("weights {} MB, cache {} MB\n", weights >> 20,
             (config.num_layers * 2 * config.num_kv_heads * config.head_dim * 4 * tokens) >> 20);
  {
    const Transformer model = load_transformer(folder, config, at::kFloat, at::kCPU);
    measure("products", [&] { products(model, tokens); });
    measure("prefill", [&] { prefill(model, ids); });
  }
  for (const Storage storage : {Storage::float32, Storage::float16}) {
    CaptureRequest request{.model = folder,
                           .target = folder / "trace.h5",
                           .ids = folder / "ids.txt",
                           .block = kBlock,
                           .attention = AttentionStorage::none,
                           .dtype = "f32",
                           .storage = storage,
                           .threads = threads};
    CaptureSummary summary;
    Silent observer;
    Progress progress;
    const bool narrow = storage == Storage::float16;
    measure(narrow ? "capture, stored as float16" : "capture, stored as float32",
            [&] { summary = run_capture(request, progress, observer); });
    fmt::print("{:28} {:.1f} s of its wall time in the prompt; trace {} MB\n", "",
               summary.prompt_seconds, std::filesystem::file_size(request.target) >> 20);
  }
}

}  // namespace
}  // namespace kvloupe

int main(int argc, char** argv) {
  const int tokens = argc > 3 ? std::atoi(argv[3]) : 2048;
  const std::string shape = argc > 4 ? argv[4] : "large";
  if (argc < 2 || tokens < 1 || (shape != "large" && shape != "small")) {
    fmt::print(stderr, "usage: kvloupe_prefill_bench FOLDER [THREADS [TOKENS [large|small]]]\n");
    return 2;
  }
  kvloupe::bench(argv[1], argc > 2 ? std::atoi(argv[2]) : 0, tokens,
                 shape == "small" ? kvloupe::kSmall : kvloupe::kLarge);
}
