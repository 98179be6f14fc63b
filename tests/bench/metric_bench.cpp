// Maps at screen resolution beside the plain T×T way; reading one head of a trace.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <Eigen/QR>

#include <numeric>
#include <random>

#include "analysis/math/attention.h"
#include "analysis/math/attention_map.h"
#include "analysis/math/attention_matching.h"
#include "analysis/math/diversity.h"
#include "analysis/math/similarity_map.h"
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

/// One head of 4 query heads: `entries` to an eighth of them, with so many reference queries.
struct MatchingHead {
  explicit MatchingHead(const benchmark::State& state)
      : keys(random_matrix(state.range(0), kHeadDim)),
        values(random_matrix(state.range(0), kHeadDim)),
        queries(random_matrix(state.range(1), kHeadDim)),
        rows(static_cast<std::size_t>(state.range(0) / 8)) {
    std::iota(rows.begin(), rows.end(), 0);
  }
  ReferenceAttention attention() const {
    const Eigen::Index each = queries.rows() / 4;
    std::vector<MatrixView> heads;
    for (int i = 0; i < 4; ++i) heads.push_back(kvloupe::rows(view(queries), i * each, each));
    const std::vector<LogitRule> rules(4, LogitRule(0.09));
    return {heads, rules, view(keys), {}};
  }

  Matrix keys, values, queries;
  std::vector<std::int32_t> rows;
};

constexpr BiasFit kBias{true, -3.0, 3.0, 2};

/// Scores and fit, as a step of attentionmatching does.
void attention_matching(benchmark::State& state) {
  const MatchingHead head(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(head.attention().measure(KeyMeasure::rms));
    benchmark::DoNotOptimize(head.attention().fit(head.rows, view(head.values), kBias));
  }
}
BENCHMARK(attention_matching)
    ->Args({4096, 1024})
    ->Args({4096, 4096})
    ->Unit(benchmark::kMillisecond);

/// The same with keys=omp,pick=4,refit=2.
void attention_matching_pursuit(benchmark::State& state) {
  const MatchingHead head(state);
  const auto picks = static_cast<int>(head.rows.size());
  for (auto _ : state) {
    benchmark::DoNotOptimize(head.attention().pursuit({picks, 4, 2, -7.0, {true, -27.6, 7.0, 0}}));
    benchmark::DoNotOptimize(head.attention().fit(head.rows, view(head.values), kBias));
  }
}
BENCHMARK(attention_matching_pursuit)->Args({4096, 1024})->Unit(benchmark::kMillisecond);

/// The plain way: E in double, both least squares by a QR decomposition of the tall matrices.
void attention_matching_plain(benchmark::State& state) {
  const MatchingHead head(state);
  const auto kept = static_cast<Eigen::Index>(head.rows.size());
  for (auto _ : state) {
    Eigen::MatrixXd exps =
        (0.09 * head.queries.cast<double>() * head.keys.cast<double>().transpose());
    exps.colwise() -= exps.rowwise().maxCoeff().eval();
    exps = exps.array().exp();
    const Eigen::VectorXd sums = exps.rowwise().sum();
    const Eigen::MatrixXd outputs =
        sums.cwiseInverse().asDiagonal() * (exps * head.values.cast<double>());
    Eigen::MatrixXd some = exps.leftCols(kept);
    const Eigen::VectorXd weights = Eigen::HouseholderQR<Eigen::MatrixXd>(some).solve(sums);
    some = some * weights.cwiseMax(std::exp(-3.0)).cwiseMin(std::exp(3.0)).asDiagonal();
    some = some.rowwise().sum().cwiseInverse().asDiagonal() * some;
    const Eigen::MatrixXd values = Eigen::HouseholderQR<Eigen::MatrixXd>(some).solve(outputs);
    benchmark::DoNotOptimize(values.data());
  }
}
BENCHMARK(attention_matching_plain)
    ->Args({4096, 1024})
    ->Args({4096, 4096})
    ->Unit(benchmark::kMillisecond);

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
  write_synthetic_trace(folder / "t.h5", {.layers = 1,
                                          .head_dim = kHeadDim,
                                          .hidden_size = 8,
                                          .prompt_length = static_cast<int>(state.range(0)),
                                          .generated = 0,
                                          .block = 512,
                                          .logsumexp = false,
                                          .text = false});
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
