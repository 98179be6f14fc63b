// Compiled for AVX2 and FMA (see CMakeLists.txt) and called only where the processor has it.

#define KVLOUPE_TILE_NAMESPACE avx2
#define KVLOUPE_TILE_FLOATS 8
#include "capture/train/tile_product_kernels.h"

namespace kvloupe::train {

const TileKernels& avx2_kernels() {
  static const TileKernels kernels{avx2::tile_product, avx2::softmax_row,
                                   avx2::softmax_gradient_row};
  return kernels;
}

}  // namespace kvloupe::train
