#pragma once
// The inner loops of attention in training: small matrix products and softmax rows in float32,
// compiled for several instruction sets and chosen at run time.

namespace kvloupe::train {

/// A matrix by its strides, so that a transpose is a swap of two numbers.
struct StridedMatrix {
  const float* data;
  int row_stride;
  int column_stride;
};

struct TileKernels {
  /// C [rows,columns] = A [rows,inner] · B [inner,columns], added to C where `accumulate`.
  /// columns is a multiple of 16; B and C are row-major with the strides given.
  void (*product)(StridedMatrix a, const float* b, int b_stride, float* c, int c_stride, int rows,
                  int inner, int columns, bool accumulate);

  /// Softmax of scale · row over its first `visible` entries, in place; zeros up to `size`, a
  /// multiple of 16. scale is positive. Returns the log-sum-exp.
  float (*softmax_row)(float* row, int visible, int size, float scale);

  /// Backward through one softmax row. `products` holds q·k and becomes the attention; `gradient`
  /// holds the gradient of the attention and becomes that of q·k. Zeros from `visible` to `size`.
  void (*softmax_gradient_row)(float* products, float* gradient, int visible, int size, float scale,
                               float logsumexp, float mean);
};

/// The kernels for the widest instruction set this processor has.
const TileKernels& tile_kernels();
const TileKernels& avx512_kernels();
const TileKernels& avx2_kernels();

}  // namespace kvloupe::train
