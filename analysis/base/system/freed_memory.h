#pragma once

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace kvloupe {

/// Call once, when a program starts. Layers' states come and go as megabytes, on all worker
/// threads; with one pool per thread (glibc's default), other threads cannot use memory that one
/// thread has freed, and a large trace takes half as much memory again. Two pools also take fewer
/// pages. Blocks up to glibc's largest threshold come from the pools, which keep some of what is
/// free: else the kernel clears the same pages for each layer anew.
inline void share_freed_memory() {
#if defined(__GLIBC__)
  constexpr int kFromPool = 32 << 20, kKept = 256 << 20;  // bytes
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, kFromPool);
  mallopt(M_TRIM_THRESHOLD, kKept);
#endif
}

}  // namespace kvloupe
