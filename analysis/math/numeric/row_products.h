#pragma once

#include <cstddef>

namespace kvloupe {

/// Products of a few rows x [rows,k] with many rows w [n,k], float32: products[r·stride + j] =
/// ⟨x_r, w_j⟩. Both are read in place, and w once; nothing is packed, as a library does for
/// products of many rows. A product's bits depend on its two rows alone.
struct RowProducts {
  std::size_t rows = 0, n = 0, k = 0;
  const float* x = nullptr;
  std::size_t x_stride = 0;
  const float* w = nullptr;
  std::size_t w_stride = 0;
  float* products = nullptr;
  std::size_t stride = 0;
};
void multiply_rows(const RowProducts& of);

}  // namespace kvloupe
