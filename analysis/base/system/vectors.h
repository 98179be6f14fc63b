#pragma once
// Vector instructions: what this processor has, and vectors of floats in the compiler's own types
// for kernels that are written once and compiled for several processors.

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KVLOUPE_VECTOR_KERNELS
/// Compiles a function for AVX-512 or for AVX2. The functions that it calls must be inlined into
/// it.
#define KVLOUPE_WIDE __attribute__((target("arch=x86-64-v4")))
#define KVLOUPE_HALF __attribute__((target("arch=x86-64-v3")))
#endif

namespace kvloupe {

/// What decides which kernels suit a processor.
struct ProcessorVectors {
  bool avx2 = false;    // with FMA and BMI2
  bool avx512 = false;  // F, DQ, BW, VL and CD
};
/// Of the processor at hand.
ProcessorVectors processor_vectors();

#ifdef KVLOUPE_VECTOR_KERNELS
/// At any address of a float. Members of a struct, because a template argument (and auto) loses
/// attributes.
struct WideFloats {
  typedef float Vector __attribute__((vector_size(64), aligned(4), may_alias));
};
struct HalfFloats {
  typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));
};
struct OneFloat {
  typedef float Vector;
};
#endif

/// The first of these for which the processor at hand has instructions.
template <typename Kernel>
Kernel kernel_for_processor([[maybe_unused]] Kernel wide, [[maybe_unused]] Kernel half,
                            Kernel plain) {
#ifdef KVLOUPE_VECTOR_KERNELS
  const ProcessorVectors vectors = processor_vectors();
  if (vectors.avx512) return wide;
  if (vectors.avx2) return half;
#endif
  return plain;
}

}  // namespace kvloupe
