// The matrix products alone that a replay of replay_bench's large head needs for some scores: what
// their times are limited by. 49 steps evict, with 2176 entries each. One thread, random states.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <vector>

#include "analysis/base/core/matrix.h"
#include "analysis/replay/cache/key_panels.h"

namespace kvloupe {
namespace {

constexpr int kSteps = 49, kEntries = 2176, kHeadDim = 128, kGroup = 4, kWindow = 32;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Products of the last 32 queries of each query head: snapkv, cakescore, lavascore, dropkv,
/// defensive.
void products_of_window(benchmark::State& state) {
  openblas_set_num_threads(1);
  const Matrix keys = Matrix::Random(kEntries, kHeadDim);
  const Matrix queries = Matrix::Random(kWindow, kHeadDim);
  const std::size_t width = KeyPanels::padded(kEntries);
  std::vector<float> products(kWindow * width);
  KeyPanels panels;
  for (auto _ : state) {
    for (int step = 0; step < kSteps; ++step) {
      panels.lay_out(view(keys));
      for (int head = 0; head < kGroup; ++head) {
        panels.multiply(view(queries), 0, kEntries, products.data(), width);
      }
    }
    benchmark::DoNotOptimize(products.data());
  }
}

/// dropkv's two products, with values in float32, with the weights in double.
void products_of_dropkv(benchmark::State& state) {
  openblas_set_num_threads(1);
  const Rows attention = Rows::Random(kGroup * kWindow, kEntries);
  const Matrix given = attention.cast<float>(), values = Matrix::Random(kEntries, kHeadDim);
  Rows outputs(attention.rows(), kHeadDim), crossed(kEntries, kHeadDim);
  for (auto _ : state) {
    for (int step = 0; step < kSteps; ++step) {
      outputs = (given * values).cast<double>();
      crossed.noalias() = attention.transpose() * outputs;
    }
    benchmark::DoNotOptimize(crossed.data());
  }
}

/// capkv's matrix of all values and the triangular system with them, in double, per query head.
void products_of_capkv(benchmark::State& state) {
  openblas_set_num_threads(1);
  const Rows values = Rows::Random(kEntries, kHeadDim);
  for (auto _ : state) {
    for (int step = 0; step < kSteps * kGroup; ++step) {
      Eigen::MatrixXd sum = Eigen::MatrixXd::Identity(kHeadDim, kHeadDim);
      sum.selfadjointView<Eigen::Lower>().rankUpdate(values.transpose());
      const Eigen::LLT<Eigen::MatrixXd, Eigen::Lower> factor(sum);
      const Eigen::MatrixXd solved = factor.matrixL().solve(values.transpose());
      benchmark::DoNotOptimize(solved.data());
    }
  }
}

/// Products of a probe over 8192 tokens in passes of /part, 96 queries at a time: with `context`
/// columns of the context, and the pass so far.
void products_of_probe(benchmark::State& state) {
  openblas_set_num_threads(1);
  const int part = static_cast<int>(state.range(0)), context = static_cast<int>(state.range(1));
  const Matrix keys = Matrix::Random(context, kHeadDim);
  const Matrix own = Matrix::Random(part + 16, kHeadDim);
  Matrix logits;
  for (auto _ : state) {
    for (int pass = 0; pass < kGroup * 8192 / part; ++pass) {
      for (int first = 0; first < part + 16; first += 96) {
        const int end = std::min(first + 96, part + 16);
        logits.resize(end - first, context + end);
        logits.leftCols(context).noalias() = own.middleRows(first, end - first) * keys.transpose();
        logits.rightCols(end).noalias() =
            own.middleRows(first, end - first) * own.topRows(end).transpose();
      }
    }
    benchmark::DoNotOptimize(logits.data());
  }
}

BENCHMARK(products_of_window)->Unit(benchmark::kMillisecond);
BENCHMARK(products_of_dropkv)->Unit(benchmark::kMillisecond);
BENCHMARK(products_of_capkv)->Unit(benchmark::kMillisecond);
BENCHMARK(products_of_probe)->Args({2048, 2052})->Args({8192, 8192})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kvloupe
