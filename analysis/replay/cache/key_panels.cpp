#include "analysis/replay/cache/key_panels.h"

#include <algorithm>

#include "analysis/base/system/vectors.h"

// Kernels in the compiler's vector types. A tile of rows × 3 vectors of keys stays in registers
// while the coordinates pass: 24 multiply-adds for 3 loads and 8 broadcasts with 32 registers, 12
// for 3 and 4 with 16.
namespace kvloupe {

#ifdef KVLOUPE_VECTOR_KERNELS
namespace {
constexpr std::size_t kVectors = 3;  // of keys in a panel

using Kernel = void (*)(const float* queries, std::size_t query_stride, std::size_t rows,
                        const float* panel, std::size_t d, float* products, std::size_t stride);

template <typename Width, int kRows>
inline __attribute__((always_inline)) void tile(const float* queries, std::size_t query_stride,
                                                const float* panel, std::size_t d, float* products,
                                                std::size_t stride) {
  using Vector = typename Width::Vector;
  constexpr std::size_t kLanes = sizeof(Vector) / sizeof(float);
  Vector sums[kRows][kVectors] = {};
  for (std::size_t c = 0; c < d; ++c) {
    const Vector* keys = reinterpret_cast<const Vector*>(panel + c * kVectors * kLanes);
    const Vector first = keys[0], second = keys[1], third = keys[2];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float x = queries[static_cast<std::size_t>(r) * query_stride + c];
      sums[r][0] += x * first;
      sums[r][1] += x * second;
      sums[r][2] += x * third;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    Vector* row = reinterpret_cast<Vector*>(products + static_cast<std::size_t>(r) * stride);
    for (std::size_t v = 0; v < kVectors; ++v) row[v] = sums[r][v];
  }
}

template <typename Width, int kRows>
inline __attribute__((always_inline)) void all_rows(const float* queries, std::size_t query_stride,
                                                    std::size_t rows, const float* panel,
                                                    std::size_t d, float* products,
                                                    std::size_t stride) {
  std::size_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    tile<Width, kRows>(queries + r * query_stride, query_stride, panel, d, products + r * stride,
                       stride);
  }
  for (; r < rows; ++r) {
    tile<Width, 1>(queries + r * query_stride, query_stride, panel, d, products + r * stride,
                   stride);
  }
}

KVLOUPE_WIDE void wide_kernel(const float* queries, std::size_t query_stride, std::size_t rows,
                              const float* panel, std::size_t d, float* products,
                              std::size_t stride) {
  all_rows<WideFloats, 8>(queries, query_stride, rows, panel, d, products, stride);
}

KVLOUPE_HALF void half_kernel(const float* queries, std::size_t query_stride, std::size_t rows,
                              const float* panel, std::size_t d, float* products,
                              std::size_t stride) {
  all_rows<HalfFloats, 4>(queries, query_stride, rows, panel, d, products, stride);
}

struct Choice {
  Kernel kernel = nullptr;
  std::size_t keys = 1;  // of a panel
};

const Choice& choice() {
  const auto of = [](Kernel kernel, std::size_t bytes) {
    return Choice{kernel, kVectors * bytes / sizeof(float)};
  };
  static const Choice chosen =
      kernel_for_processor(of(wide_kernel, sizeof(WideFloats::Vector)),
                           of(half_kernel, sizeof(HalfFloats::Vector)), Choice{});
  return chosen;
}
}  // namespace

bool KeyPanels::available() { return choice().kernel != nullptr; }

std::size_t KeyPanels::padded(std::size_t n) {
  const std::size_t keys = choice().keys;
  return (n + keys - 1) / keys * keys;
}

void KeyPanels::lay_out(const MatrixView& keys) {
  constexpr std::size_t kCoordinates = 16;  // of a key at a time: a cache line
  const auto n = static_cast<std::size_t>(keys.rows());
  const auto d = static_cast<std::size_t>(keys.cols());
  const std::size_t width = choice().keys;
  panels_.resize(padded(n) * d);
  if (n < padded(n)) {
    std::fill(panels_.end() - static_cast<std::ptrdiff_t>(width * d), panels_.end(), 0.0F);
  }
  for (std::size_t first = 0; first < n; first += width) {
    float* panel = panels_.data() + first * d;
    const std::size_t count = std::min(width, n - first);
    for (std::size_t start = 0; start < d; start += kCoordinates) {
      const std::size_t end = std::min(start + kCoordinates, d);
      for (std::size_t i = 0; i < count; ++i) {
        const float* key = keys.data() + (first + i) * static_cast<std::size_t>(keys.outerStride());
        for (std::size_t c = start; c < end; ++c) panel[c * width + i] = key[c];
      }
    }
  }
}

void KeyPanels::multiply(const MatrixView& queries, Eigen::Index oldest, Eigen::Index seen,
                         float* products, std::size_t stride) const {
  const auto d = static_cast<std::size_t>(queries.cols());
  const std::size_t panel = choice().keys;
  for (std::size_t first = static_cast<std::size_t>(oldest) / panel * panel;
       first < static_cast<std::size_t>(seen); first += panel) {
    choice().kernel(queries.data(), static_cast<std::size_t>(queries.outerStride()),
                    static_cast<std::size_t>(queries.rows()), panels_.data() + first * d, d,
                    products + first, stride);
  }
}
#else
bool KeyPanels::available() { return false; }
std::size_t KeyPanels::padded(std::size_t n) { return n; }
void KeyPanels::lay_out(const MatrixView& /*keys*/) {}
void KeyPanels::multiply(const MatrixView& /*queries*/, Eigen::Index /*oldest*/,
                         Eigen::Index /*seen*/, float* /*products*/, std::size_t /*stride*/) const {
}
#endif

}  // namespace kvloupe
