# Every library of the tree links kvloupe_options: language level, warnings, include root.
# Includes are written from the root: #include "analysis/policy/kit/policy.h".
add_library(kvloupe_options INTERFACE)
target_include_directories(kvloupe_options INTERFACE ${kvloupe_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_compile_features(kvloupe_options INTERFACE cxx_std_20)
# GCC 12 warns falsely on "text" + std::string (its bug 105651) in four ways, three of them only
# where <string> comes from a precompiled header. The sanitizers' preset finds real errors of this kind.
set(KVLOUPE_FALSE_ALARMS -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
target_compile_options(kvloupe_options INTERFACE -Wall -Wextra
  "$<$<CXX_COMPILER_ID:GNU>:${KVLOUPE_FALSE_ALARMS}>"
  $<$<BOOL:${KVLOUPE_WERROR}>:-Werror>)
# GCC looks for garbage less often: a tenth less time for a file, and some 300 MB more memory.
target_compile_options(kvloupe_options INTERFACE
  "$<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=300;--param=ggc-min-heapsize=524288>")
if(KVLOUPE_SANITIZE)
  target_compile_options(kvloupe_options INTERFACE -fsanitize=${KVLOUPE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(kvloupe_options INTERFACE -fsanitize=${KVLOUPE_SANITIZE})
endif()

configure_file(${kvloupe_SOURCE_DIR}/analysis/base/core/version.h.in ${CMAKE_BINARY_DIR}/generated/version.h @ONLY)

include(${CMAKE_CURRENT_LIST_DIR}/libraries.cmake)

# The same for all, so that all can use the same precompiled headers.
target_compile_definitions(kvloupe_options INTERFACE EIGEN_USE_BLAS
  $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(kvloupe_options INTERFACE Threads::Threads)
# Loops marked "omp simd" may be vectorised; no OpenMP runtime.
target_compile_options(kvloupe_options INTERFACE -fopenmp-simd)
