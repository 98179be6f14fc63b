// Compiled for AVX-512 (see CMakeLists.txt) and called only where the processor has it.

#define KVLOUPE_TILE_NAMESPACE avx512
#define KVLOUPE_TILE_FLOATS 16
#include "capture/train/tile_product_kernels.h"

namespace kvloupe::train {

const TileKernels& avx512_kernels() {
  static const TileKernels kernels{avx512::tile_product, avx512::softmax_row,
                                   avx512::softmax_gradient_row};
  return kernels;
}

}  // namespace kvloupe::train
