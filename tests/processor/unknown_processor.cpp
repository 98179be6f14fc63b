// Loaded in front of a program (LD_PRELOAD): OpenBLAS takes the kernels that it takes on a
// processor that it does not know.
#include <dlfcn.h>

#include <cstring>

extern "C" __attribute__((visibility("default"))) char* getenv(const char* name) {
  static char oldest[] = "Prescott";
  static bool told = false;
  static auto* const own = reinterpret_cast<char* (*)(const char*)>(dlsym(RTLD_NEXT, "getenv"));
  if (std::strcmp(name, "OPENBLAS_CORETYPE") != 0 || told) return own(name);
  told = true;  // OpenBLAS itself asks first
  return oldest;
}
