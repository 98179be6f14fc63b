#include "capture/model/projection.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <cblas.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <cstddef>

#include "analysis/base/core/parallel_loop.h"
#include "analysis/base/system/blas.h"
#include "analysis/math/numeric/row_products.h"

// Internal functions of OpenBLAS, not in its headers: work memory of a product. Null if another
// build hides them.
extern "C" {
__attribute__((weak)) void* blas_memory_alloc(int place);
__attribute__((weak)) void blas_memory_free(void* memory);
}

namespace kvloupe {

namespace {

/// Reads a number in each page of the work memory that products of `threads` threads will use. The
/// kernels prefetch beyond the part that a product of few columns has written. The processor looks
/// up an untouched page again each time, and the product takes twice as long.
bool touch_work_memory(std::size_t threads) {
  constexpr std::size_t kBytes = std::size_t{4} << 20U, kPage = 4096;
  if (blas_memory_alloc == nullptr || blas_memory_free == nullptr) return false;
  std::vector<void*> all;
  for (std::size_t i = 0; i < threads; ++i) all.push_back(blas_memory_alloc(0));
  for (void* memory : all) {
    if (memory == nullptr) continue;
    const auto* const bytes = static_cast<const volatile char*>(memory);
    for (std::size_t byte = 0; byte < kBytes; byte += kPage) static_cast<void>(bytes[byte]);
    blas_memory_free(memory);
  }
  return true;
}

bool is_dense_float(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.is_contiguous();
}

bool in_pieces(const at::Tensor& x, const Projection& projection) {
  const at::Tensor& weight = projection.weight;
  const at::Tensor& bias = projection.bias;
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || !is_dense_float(weight)) return false;
  if (bias.defined() && !is_dense_float(bias)) return false;
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::AutocastCPU)) return false;
  const bool learns =
      x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad());
  return !(learns && at::GradMode::is_enabled());
}

/// The columns [first, first + count) of the product with one of several matrices.
struct Piece {
  std::size_t projection = 0;
  std::int64_t first = 0, count = 0;
};

/// x [rows,k]; `result`: [rows,n].
void multiply(const Piece& piece, const Projection& projection, const float* x, std::int64_t rows,
              float* result) {
  const std::int64_t n = projection.weight.size(0), k = projection.weight.size(1);
  const float* const weight = projection.weight.data_ptr<float>() + piece.first * k;
  result += piece.first;
  const float* const bias =
      projection.bias.defined() ? projection.bias.data_ptr<float>() + piece.first : nullptr;
  if (rows <= kFewRows) {
    const auto size = [](std::int64_t number) { return static_cast<std::size_t>(number); };
    multiply_rows(
        {size(rows), size(piece.count), size(k), x, size(k), weight, size(k), result, size(n)});
    for (std::int64_t row = 0; bias != nullptr && row < rows; ++row) {
      for (std::int64_t i = 0; i < piece.count; ++i) result[row * n + i] += bias[i];
    }
    return;
  }
  for (std::int64_t row = 0; bias != nullptr && row < rows; ++row) {
    std::copy_n(bias, piece.count, result + row * n);
  }
  const float kept = bias != nullptr ? 1.0F : 0.0F;
  const auto size = [](std::int64_t number) { return static_cast<blasint>(number); };
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, size(rows), size(piece.count), size(k), 1.0F,
              x, size(k), weight, size(k), kept, result, size(n));
}

}  // namespace

std::vector<at::Tensor> project(const at::Tensor& x,
                                std::initializer_list<const Projection*> projections) {
  std::vector<at::Tensor> results;
  if (!std::all_of(projections.begin(), projections.end(),
                   [&](const Projection* projection) { return in_pieces(x, *projection); })) {
    for (const Projection* projection : projections)
      results.push_back(at::linear(x, projection->weight, projection->bias));
    return results;
  }
  const at::Tensor dense = x.contiguous();
  const std::int64_t k = x.size(-1);
  const std::int64_t rows = x.numel() / std::max<std::int64_t>(k, 1);
  const std::int64_t most = rows <= kFewRows ? kPieceColumnsOfFewRows : kPieceColumns;
  std::vector<Piece> pieces;
  for (const Projection* projection : projections) {
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = projection->weight.size(0);
    for (std::int64_t first = 0; rows > 0 && first < shape.back(); first += most)
      pieces.push_back({results.size(), first, std::min(most, shape.back() - first)});
    results.push_back(at::empty(shape, x.options()));
  }
  const OneBlasThread one_thread;
  static const bool touched = touch_work_memory(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  static_cast<void>(touched);
  parallel_loop<std::size_t>(
      0, pieces.size(),
      [&](std::size_t i) {
        const Piece& piece = pieces[i];
        multiply(piece, *projections.begin()[piece.projection], dense.data_ptr<float>(), rows,
                 results[piece.projection].data_ptr<float>());
      },
      tbb::simple_partitioner());
  return results;
}

at::Tensor Projection::operator()(const at::Tensor& x) const { return project(x, {this}).front(); }

}  // namespace kvloupe
