// The replays of replay_bench's large head as one would write them with libtorch at hand: the
// yardstick for the engine. One thread, the same shapes; random states, for only time is measured.
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

constexpr int kTokens = 8192, kBlock = 128, kBudget = 2048, kGroup = 4, kHeadDim = 128;
constexpr int kWindow = 32, kKernel = 7;

/// Softmax rows of the block's last `rows` queries over the cache: [G,rows,n].
torch::Tensor attention(const torch::Tensor& queries, const torch::Tensor& keys, int rows) {
  const auto asked = queries.slice(1, queries.size(1) - rows);
  torch::Tensor logits = torch::matmul(asked, keys.t()) * (1.0 / std::sqrt(double{kHeadDim}));
  if (rows > 1) {
    const auto later = torch::ones({rows, rows}, torch::kBool).triu(1);
    logits.slice(2, keys.size(0) - rows)
        .masked_fill_(later, -std::numeric_limits<float>::infinity());
  }
  return torch::softmax(logits, 2);
}

void replay_large_head_torch(benchmark::State& state, const std::string& policy) {
  torch::NoGradGuard no_grad;
  torch::set_num_threads(1);
  openblas_set_num_threads(1);  // libtorch does not tell it
  torch::manual_seed(1);
  const auto all_keys = torch::randn({kTokens, kHeadDim});
  const auto all_queries = torch::randn({kGroup, kTokens, kHeadDim});
  for (auto _ : state) {
    torch::Tensor keys = torch::empty({0, kHeadDim});
    torch::Tensor received = torch::empty({0});
    for (int first = 0; first < kTokens; first += kBlock) {
      keys = torch::cat({keys, all_keys.slice(0, first, first + kBlock)});
      const auto queries = all_queries.slice(1, first, first + kBlock);
      const auto n = keys.size(0);
      if (policy == "h2o") {
        received = torch::cat({received, torch::zeros({kBlock})});
        received += attention(queries, keys, kBlock).sum(1).mean(0);
      }
      if (n <= kBudget) continue;
      torch::Tensor scores = received;
      if (policy == "keydiff") {
        const auto anchor = torch::nn::functional::normalize(keys).mean(0, true);
        scores = -torch::cosine_similarity(keys, anchor);
      } else if (policy == "tova") {
        scores = attention(queries, keys, 1).mean(0).squeeze(0);
      } else if (policy == "snapkv") {
        const auto votes = attention(queries, keys, kWindow).mean(1).mean(0);
        scores = torch::avg_pool1d(votes.view({1, 1, n}), kKernel, 1, kKernel / 2).view({n});
        scores.slice(0, n - kWindow).fill_(std::numeric_limits<float>::infinity());
      }
      const auto kept = std::get<0>(std::get<1>(torch::topk(scores, kBudget)).sort());
      keys = keys.index_select(0, kept);
      if (policy == "h2o") received = received.index_select(0, kept);
    }
    benchmark::DoNotOptimize(keys.data_ptr<float>());
  }
}
BENCHMARK_CAPTURE(replay_large_head_torch, keydiff, "keydiff")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head_torch, tova, "tova")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head_torch, snapkv, "snapkv")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(replay_large_head_torch, h2o, "h2o")->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvloupe
