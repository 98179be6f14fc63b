#include "capture/model/row_attention.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/system/vectors.h"
#include "analysis/math/numeric/exponentials.h"
#include "analysis/math/numeric/row_products.h"
#include "capture/model/row_softmax.h"

namespace kvloupe {

namespace {

// A stretch of values stays in the second-level cache while all rows use it, and 16 of its columns
// in the first-level cache.
constexpr std::size_t kStretch = 256;

void plain_kernel(const WeightedSums& of) {
  for (std::size_t first = 0; first < of.n; first += kStretch) {
    const std::size_t end = std::min(first + kStretch, of.n);
    for (std::size_t r = 0; r < of.rows; ++r) {
      for (std::size_t column = 0; column < of.d; ++column) {
        float total = 0.0F;
        for (std::size_t k = first; k < end; ++k) {
          total += of.weights[r * of.weight_stride + k] * of.values[k * of.value_stride + column];
        }
        of.sums[r * of.sum_stride + column] += total;
      }
    }
  }
}

#ifdef KVLOUPE_VECTOR_KERNELS
/// kRows rows × kVectors vectors of the sums in registers while a stretch of values passes.
template <typename Width, int kRows, int kVectors>
inline __attribute__((always_inline)) void tile(const float* weights, std::size_t weight_stride,
                                                const float* values, std::size_t value_stride,
                                                std::size_t n, float* sums,
                                                std::size_t sum_stride) {
  using Vector = typename Width::Vector;
  Vector total[kRows][kVectors] = {};
  for (std::size_t k = 0; k < n; ++k) {
    const Vector* value = reinterpret_cast<const Vector*>(values + k * value_stride);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float weight = weights[static_cast<std::size_t>(r) * weight_stride + k];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) total[r][v] += weight * value[v];
    }
  }
  for (int r = 0; r < kRows; ++r) {
    Vector* row = reinterpret_cast<Vector*>(sums + static_cast<std::size_t>(r) * sum_stride);
    for (int v = 0; v < kVectors; ++v) row[v] += total[r][v];
  }
}

/// All rows of kVectors vectors of columns from `column` on, over the values from `first` to `end`.
template <typename Width, int kRows, int kVectors>
inline __attribute__((always_inline)) void all_rows(const WeightedSums& of, std::size_t first,
                                                    std::size_t end, std::size_t column) {
  const float* values = of.values + first * of.value_stride + column;
  const auto rows_at = [&]<int kCount>(std::size_t r) __attribute__((always_inline)) {
    tile<Width, kCount, kVectors>(of.weights + r * of.weight_stride + first, of.weight_stride,
                                  values, of.value_stride, end - first,
                                  of.sums + r * of.sum_stride + column, of.sum_stride);
  };
  std::size_t r = 0;
  for (; r + kRows <= of.rows; r += kRows) rows_at.template operator()<kRows>(r);
  for (; r + 3 <= of.rows; r += 3) rows_at.template operator()<3>(r);
  for (; r < of.rows; ++r) rows_at.template operator()<1>(r);
}

template <typename Width, int kRows, int kVectors>
inline __attribute__((always_inline)) void all(const WeightedSums& of) {
  constexpr std::size_t kLanes = sizeof(typename Width::Vector) / sizeof(float);
  for (std::size_t first = 0; first < of.n; first += kStretch) {
    const std::size_t end = std::min(first + kStretch, of.n);
    std::size_t column = 0;
    for (; column + kVectors * kLanes <= of.d; column += kVectors * kLanes) {
      all_rows<Width, kRows, kVectors>(of, first, end, column);
    }
    for (; column + kLanes <= of.d; column += kLanes) {
      all_rows<Width, kRows, 1>(of, first, end, column);
    }
    for (; column < of.d; ++column) all_rows<OneFloat, kRows, 1>(of, first, end, column);
  }
}

KVLOUPE_WIDE void wide_kernel(const WeightedSums& of) { all<WideFloats, 6, 4>(of); }

KVLOUPE_HALF void half_kernel(const WeightedSums& of) { all<HalfFloats, 6, 2>(of); }
#else
constexpr auto wide_kernel = plain_kernel, half_kernel = plain_kernel;
#endif

}  // namespace

void add_weighted_sums(const WeightedSums& of) {
  static const auto kernel = kernel_for_processor(wide_kernel, half_kernel, plain_kernel);
  kernel(of);
}

namespace {

constexpr std::int64_t kTileFloats = std::int64_t{1} << 16;  // logits of one tile: 256 KiB

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Room for `wanted` floats.
float* room(std::unique_ptr<float[]>& buffer, std::size_t& held, std::size_t wanted) {
  if (held < wanted) {
    buffer = std::make_unique_for_overwrite<float[]>(wanted);
    held = wanted;
  }
  return buffer.get();
}

/// Floats from one row of n logits to the next: whole panels, and an odd number of cache lines, so
/// that rows do not compete for the same places in the cache.
std::size_t row_stride(std::size_t n) { return (KeyPanels::padded(n) + 15) / 32 * 32 + 16; }

/// The number of the block's queries in a tile: as many as have room for their logits, in multiples
/// of eight if more.
std::int64_t tile_queries(std::int64_t group, std::int64_t n, std::int64_t m) {
  const std::int64_t fit = std::clamp<std::int64_t>(kTileFloats / (group * n), 1, m);
  return fit < 8 ? fit : fit / 8 * 8;
}

}  // namespace

void RowAttention::attend(const HeadRows& head, const RowResults& results,
                          const Progress& progress) {
  const std::int64_t oldest = head.visible.front().first;
  const std::int64_t n = head.visible.back().end - oldest;
  if (head.m > 1) {  // else each key is used once for each query of the group
    panels_.lay_out(
        MatrixView(head.keys + oldest * head.d, n, head.d, Eigen::OuterStride<>(head.d)));
  }
  const std::int64_t tile = tile_queries(head.group, n, head.m);
  const std::int64_t tiles = (head.m + tile - 1) / tile;
  const auto threads = static_cast<std::int64_t>(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  const std::int64_t workers = std::min(threads, tiles);
  if (std::ssize(buffers_) < workers) buffers_.resize(size(workers));
  // A free thread takes the next tile, because later rows see more and another program may delay a
  // thread. The longest tiles come first.
  std::atomic<std::int64_t> next{0};
  const auto work = [&](std::int64_t worker) {
    for (std::int64_t taken = next++; taken < tiles; taken = next++) {
      progress.check();
      const std::int64_t first = (tiles - 1 - taken) * tile;
      attend_tile(head, results, first, std::min(first + tile, head.m), buffers_[size(worker)]);
    }
  };
  if (workers == 1) return work(0);
  parallel_loop<std::int64_t>(0, workers, work);
}

void RowAttention::attend_tile(const HeadRows& head, const RowResults& results, std::int64_t first,
                               std::int64_t end, Buffers& buffers) const {
  const std::int64_t base = head.visible.front().first;  // the panels' first entry
  const std::int64_t oldest = head.visible[size(first)].first;
  const std::int64_t seen = head.visible[size(end - 1)].end;
  const std::int64_t r = end - first;
  const std::size_t d = size(head.d);
  const std::size_t all = size(head.group * r);
  const std::size_t stride = row_stride(size(seen - base));
  float* const queries = room(buffers.queries, buffers.query_room, all * d);
  for (std::int64_t g = 0; g < head.group; ++g) {
    std::copy_n(head.queries + (g * head.m + first) * head.d, r * head.d, queries + g * r * head.d);
  }
  float* const logits = room(buffers.logits, buffers.logit_room, all * stride);
  if (head.m > 1) {
    panels_.multiply(MatrixView(queries, head.group * r, head.d, Eigen::OuterStride<>(head.d)),
                     oldest - base, seen - base, logits, stride);
  } else {
    multiply_rows(
        {all, size(seen - base), d, queries, d, head.keys + base * head.d, d, logits, stride});
  }

  buffers.inverse.resize(all);
  for (std::size_t row = 0; row < all; ++row) {
    const std::int64_t place = static_cast<std::int64_t>(row) / r * head.m + first +
                               static_cast<std::int64_t>(row) % r;  // in [G,m]
    const SeenEntries own = head.visible[size(place % head.m)];
    float* const whole = logits + row * stride;
    const std::span<float> values(whole + (own.first - base), size(own.end - own.first));
    auto scale = static_cast<float>(head.rule.scale);
    if (head.rule.softcap > 0.0) {
      to_logits(Eigen::Map<Eigen::VectorXf>(values.data(), std::ssize(values)), head.rule);
      scale = 1.0F;
    }
    if (head.log_sizes != nullptr) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = scale * values[i] + head.log_sizes[size(own.first) + i];
      }
      scale = 1.0F;
    }
    const float largest = largest_of(values);
    const bool keep = results.outputs != nullptr || results.rows != nullptr;
    const double sum = sum_of_exponentials(values.data(), values.size(), largest, scale, keep);
    const double shift = static_cast<double>(scale) * static_cast<double>(largest);
    double logsumexp = shift + std::log(sum);
    if (head.sinks == nullptr) {
      buffers.inverse[row] = static_cast<float>(1.0 / sum);
    } else {  // a sink may be far above all logits
      const double sink = head.sinks[place / head.m];
      logsumexp = std::max(logsumexp, sink) + std::log1p(std::exp(-std::abs(logsumexp - sink)));
      buffers.inverse[row] = static_cast<float>(std::exp(shift - logsumexp));
    }
    if (results.logsumexp != nullptr) {
      results.logsumexp[place] = static_cast<float>(logsumexp);
    }
    if (results.outputs != nullptr) {  // what other rows of the tile see counts nothing
      std::fill(whole + (oldest - base), values.data(), 0.0F);
      std::fill(values.data() + values.size(), whole + (seen - base), 0.0F);
    }
    if (results.rows != nullptr) {
      float* const kept = results.rows + place * results.row_length;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t entry = size(own.first) + i;
        kept[results.columns == nullptr ? entry : size(results.columns[entry])] =
            values[i] * buffers.inverse[row];
      }
    }
  }

  if (results.outputs == nullptr) return;
  float* const sums = room(buffers.sums, buffers.sum_room, all * d);
  std::fill_n(sums, all * d, 0.0F);
  add_weighted_sums({all, size(seen - oldest), d, logits + (oldest - base), stride,
                     results.values + oldest * head.d, d, sums, d});
  for (std::size_t row = 0; row < all; ++row) {
    const std::int64_t place =
        static_cast<std::int64_t>(row) / r * head.m + first + static_cast<std::int64_t>(row) % r;
    float* const output = results.outputs + place * head.d;
    for (std::size_t c = 0; c < d; ++c) output[c] = sums[row * d + c] * buffers.inverse[row];
  }
}

}  // namespace kvloupe
