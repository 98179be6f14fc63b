#include "analysis/base/system/vectors.h"

namespace kvloupe {

ProcessorVectors processor_vectors() {
  ProcessorVectors vectors;
#ifdef __x86_64__
  __builtin_cpu_init();
  vectors.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("bmi2");
  vectors.avx512 = vectors.avx2 && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
#endif
  return vectors;
}

}  // namespace kvloupe
