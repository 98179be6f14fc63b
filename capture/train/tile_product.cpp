#define KVLOUPE_TILE_NAMESPACE portable
#define KVLOUPE_TILE_FLOATS 8
#include "capture/train/tile_product_kernels.h"

namespace kvloupe::train {
namespace {

const TileKernels& portable_kernels() {
  static const TileKernels kernels{portable::tile_product, portable::softmax_row,
                                   portable::softmax_gradient_row};
  return kernels;
}

}  // namespace

const TileKernels& tile_kernels() {
#ifdef KVLOUPE_TILE_X86
  static const TileKernels& chosen =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl")
          ? avx512_kernels()
      : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? avx2_kernels()
                                                                        : portable_kernels();
  return chosen;
#else
  return portable_kernels();
#endif
}

}  // namespace kvloupe::train
