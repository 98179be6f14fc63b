// Maps at screen resolution beside the plain T×T way; reading one head of a trace.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <random>

#include "analysis/metric/attention.h"
#include "analysis/metric/attention_map.h"
#include "analysis/metric/log_determinant.h"
#include "analysis/metric/similarity_map.h"
#include "analysis/trace/half.h"
#include "analysis/trace/trace.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe {
namespace {

constexpr int kHeadDim = 128;
constexpr int kPixels = 1000;

Matrix random_matrix(Eigen::Index rows, Eigen::Index columns) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Matrix m(rows, columns);
  for (float& x : m.reshaped()) x = normal(random);
  return m;
}

void similarity_build(benchmark::State& state) {
  const Matrix keys = random_matrix(state.range(0), kHeadDim);
  for (auto _ : state) benchmark::DoNotOptimize(SimilarityMap(view(keys)));
  state.SetBytesProcessed(state.iterations() * keys.size() * 12);  // floats read, doubles written
}
BENCHMARK(similarity_build)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

/// One zoomed window, as a drag of the mouse asks for it.
void similarity_map(benchmark::State& state) {
  const Matrix keys = random_matrix(state.range(0), kHeadDim);
  const SimilarityMap similarity(view(keys));
  const double end = static_cast<double>(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(similarity.map({0.3, end - 0.7, 0.1, end - 0.2, kPixels, kPixels}));
  }
  state.counters["flops"] = benchmark::Counter(2.0 * kPixels * kPixels * kHeadDim,
                                               benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(similarity_map)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

/// The plain way: all T×T cosines, then means of tiles.
void similarity_plain(benchmark::State& state) {
  const Eigen::Index count = state.range(0);
  const Matrix keys = random_matrix(count, kHeadDim);
  for (auto _ : state) {
    const Matrix normalised = keys.rowwise().normalized();
    const Matrix cosines = normalised * normalised.transpose();
    Matrix map(kPixels, kPixels);
    for (Eigen::Index y = 0; y < kPixels; ++y) {
      for (Eigen::Index x = 0; x < kPixels; ++x) {
        const Eigen::Index r = y * count / kPixels, c = x * count / kPixels;
        map(y, x) =
            cosines.block(r, c, (y + 1) * count / kPixels - r, (x + 1) * count / kPixels - c)
                .mean();
      }
    }
    benchmark::DoNotOptimize(map.data());
  }
}
BENCHMARK(similarity_plain)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

void attention_logsumexp_all(benchmark::State& state) {
  const Matrix q = random_matrix(state.range(0), kHeadDim);
  Progress progress;
  for (auto _ : state)
    benchmark::DoNotOptimize(attention_logsumexp(view(q), view(q), 0.09F, 0, progress));
  state.counters["flops"] = benchmark::Counter(
      static_cast<double>(state.range(0)) * static_cast<double>(state.range(0)) * kHeadDim,
      benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention_logsumexp_all)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

void attention_map_window(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  const Matrix q = random_matrix(count, kHeadDim);
  Progress progress;
  const std::vector<float> logsumexp = attention_logsumexp(view(q), view(q), 0.09F, 0, progress);
  AttentionWindow window{0, count, 0, count, kPixels, kPixels};
  window.pooling = state.range(1) == 0 ? Pooling::max : Pooling::mean;
  for (auto _ : state) {
    benchmark::DoNotOptimize(attention_map(view(q), view(q), 0.09F, logsumexp, window, progress));
  }
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(count) * static_cast<double>(count) * kHeadDim,
                         benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention_map_window)
    ->ArgsProduct({{4096, 32768}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

/// The plain way: the whole T×T softmax, then the largest of each tile.
void attention_map_plain(benchmark::State& state) {
  const Eigen::Index count = state.range(0);
  const Matrix q = random_matrix(count, kHeadDim);
  for (auto _ : state) {
    const Matrix attention = attention_rows(view(q), view(q), 0.09F, 0);
    Matrix map(kPixels, kPixels);
    for (Eigen::Index y = 0; y < kPixels; ++y) {
      for (Eigen::Index x = 0; x < kPixels; ++x) {
        const Eigen::Index r = y * count / kPixels, c = x * count / kPixels;
        map(y, x) =
            attention.block(r, c, (y + 1) * count / kPixels - r, (x + 1) * count / kPixels - c)
                .maxCoeff();
      }
    }
    benchmark::DoNotOptimize(map.data());
  }
}
BENCHMARK(attention_map_plain)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

void log_determinant(benchmark::State& state) {
  const Matrix keys = random_matrix(state.range(0), kHeadDim);
  for (auto _ : state) benchmark::DoNotOptimize(log_pseudo_determinant(view(keys)));
}
BENCHMARK(log_determinant)->Arg(256)->Arg(4096)->Unit(benchmark::kMillisecond);

void half_to_float(benchmark::State& state) {
  std::vector<std::uint16_t> halves(1 << 22, 0x3c01);
  std::vector<float> floats(halves.size());
  for (auto _ : state) {
    floats_from_halves(halves, floats);
    benchmark::DoNotOptimize(floats.data());
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(halves) * 6);
}
BENCHMARK(half_to_float)->Unit(benchmark::kMillisecond);

void float_to_half(benchmark::State& state) {
  std::vector<float> floats(1 << 22, 1.25F);
  std::vector<std::uint16_t> halves(floats.size());
  for (auto _ : state) {
    halves_from_floats(floats, halves);
    benchmark::DoNotOptimize(halves.data());
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(halves) * 6);
}
BENCHMARK(float_to_half)->Unit(benchmark::kMillisecond);

/// One head's keys from a file in the page cache.
void read_head(benchmark::State& state) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  options.layers = 1;
  options.head_dim = kHeadDim;
  options.hidden_size = 8;
  options.prompt_length = static_cast<int>(state.range(0));
  options.generated = 0;
  options.block = 512;
  options.logsumexp = options.text = false;
  write_synthetic_trace(folder / "t.h5", options);
  const Trace trace(folder / "t.h5");
  int head = 0;
  for (auto _ : state) benchmark::DoNotOptimize(trace.key(0, head ^= 1));
  state.SetBytesProcessed(state.iterations() * state.range(0) * kHeadDim * 2);
}
BENCHMARK(read_head)->Arg(4096)->Arg(32768)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvloupe

int main(int argc, char** argv) {
  openblas_set_num_threads(1);  // as inside the pool of workers
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
