#pragma once

/// Put before a function whose loops vectorise: it is compiled for several x86 generations, and the
/// best is chosen when the program starts. Expands to nothing elsewhere, and with sanitizers, which
/// run before the choice can be made.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define KVLOUPE_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define KVLOUPE_VECTOR_CLONES
#endif
