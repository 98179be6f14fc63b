#include "capture/model/projection.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <cblas.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <cstddef>

#include "analysis/cache/one_blas_thread.h"
#include "analysis/parallel_loop.h"

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

/// The columns [first, first + count) of a product.
struct Piece {
  const float* weight = nullptr;  // rows of W
  const float* bias = nullptr;    // of these columns; may be null
  float* result = nullptr;        // the first row's first column
  std::int64_t count = 0;
  std::int64_t columns = 0;  // of the whole product
};

/// x [rows,k].
void multiply(const Piece& piece, const float* x, std::int64_t rows, std::int64_t k) {
  for (std::int64_t row = 0; piece.bias != nullptr && row < rows; ++row) {
    std::copy_n(piece.bias, piece.count, piece.result + row * piece.columns);
  }
  const float kept = piece.bias != nullptr ? 1.0F : 0.0F;
  const auto size = [](std::int64_t n) { return static_cast<blasint>(n); };
  if (rows == 1) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, size(piece.count), size(k), 1.0F, piece.weight,
                size(k), x, 1, kept, piece.result, 1);
    return;
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, size(rows), size(piece.count), size(k), 1.0F,
              x, size(k), piece.weight, size(k), kept, piece.result, size(piece.columns));
}

}  // namespace

std::vector<at::Tensor> project(const at::Tensor& x,
                                std::initializer_list<const Projection*> projections) {
  std::vector<at::Tensor> results;
  if (!std::all_of(projections.begin(), projections.end(),
                   [&](const Projection* projection) { return in_pieces(x, *projection); })) {
    for (const Projection* projection : projections) {
      results.push_back(at::linear(x, projection->weight, projection->bias));
    }
    return results;
  }
  const at::Tensor dense = x.contiguous();
  const std::int64_t k = x.size(-1);
  const std::int64_t rows = x.numel() / std::max<std::int64_t>(k, 1);
  const std::int64_t most = rows == 1 ? kPieceColumnsOfOneRow : kPieceColumns;
  std::vector<Piece> pieces;
  for (const Projection* projection : projections) {
    const std::int64_t n = projection->weight.size(0);
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = n;
    results.push_back(at::empty(shape, x.options()));
    auto* const result = results.back().data_ptr<float>();
    const auto* const weight = projection->weight.data_ptr<float>();
    const auto* const bias =
        projection->bias.defined() ? projection->bias.data_ptr<float>() : nullptr;
    for (std::int64_t first = 0; first < n; first += most) {
      pieces.push_back({weight + first * k, bias == nullptr ? nullptr : bias + first,
                        result + first, std::min(most, n - first), n});
    }
  }
  if (rows == 0) return results;
  const auto* const values = dense.data_ptr<float>();
  const OneBlasThread one_thread;
  static const bool touched = touch_work_memory(
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism));
  static_cast<void>(touched);
  parallel_loop<std::size_t>(
      0, pieces.size(), [&](std::size_t i) { multiply(pieces[i], values, rows, k); },
      tbb::simple_partitioner());
  return results;
}

at::Tensor Projection::operator()(const at::Tensor& x) const { return project(x, {this}).front(); }

}  // namespace kvloupe
