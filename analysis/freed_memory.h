#pragma once

#include <cstdlib>  // says whether this is glibc

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace kvloupe {

/// Call once, when a program starts. Layers' states come and go as megabytes, on all worker
/// threads; in one pool per thread (glibc's default) what one thread has freed is not there for the
/// others, and a large trace takes half as much memory again. Two pools also take fewer pages.
inline void share_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_ARENA_MAX, 2);
#endif
}

}  // namespace kvloupe
