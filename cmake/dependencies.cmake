# Every library of the tree links kvloupe_options: language level, warnings, include root.
# Includes are written from the root: #include "analysis/policy/kit/policy.h".
add_library(kvloupe_options INTERFACE)
target_include_directories(kvloupe_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
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

configure_file(${CMAKE_SOURCE_DIR}/analysis/version.h.in ${CMAKE_BINARY_DIR}/generated/version.h @ONLY)

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(TBB REQUIRED)
pkg_check_modules(EIGEN3 REQUIRED IMPORTED_TARGET eigen3)
pkg_check_modules(HDF5 REQUIRED IMPORTED_TARGET hdf5)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(MUPARSER REQUIRED IMPORTED_TARGET muparser)
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
# Without MPI, a study runs in one process.
set(MPI_CXX_SKIP_MPICXX TRUE)
find_package(MPI COMPONENTS CXX)

# Found at the root, because imported targets are visible only from the folder that found them down.
if(KVLOUPE_CAPTURE)
  find_package(Torch REQUIRED)
  pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
endif()
if(KVLOUPE_CAPTURE OR KVLOUPE_APP)
  pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
endif()
if(KVLOUPE_CAPTURE AND KVLOUPE_TESTS)
  pkg_check_modules(SENTENCEPIECE REQUIRED IMPORTED_TARGET sentencepiece)
endif()
if(KVLOUPE_APP)
  pkg_check_modules(IMGUI REQUIRED IMPORTED_TARGET imgui)
  pkg_check_modules(CAIRO REQUIRED IMPORTED_TARGET cairo cairo-pdf cairo-ft)
  pkg_check_modules(FONTCONFIG REQUIRED IMPORTED_TARGET fontconfig)
  pkg_check_modules(FREETYPE REQUIRED IMPORTED_TARGET freetype2)
  pkg_check_modules(HARFBUZZ REQUIRED IMPORTED_TARGET harfbuzz)
  pkg_check_modules(FRIBIDI REQUIRED IMPORTED_TARGET fribidi)
  pkg_check_modules(GLFW REQUIRED IMPORTED_TARGET glfw3)
  pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
  find_package(OpenGL REQUIRED COMPONENTS OpenGL)
endif()

# The same for all, so that all can use the same precompiled headers.
target_compile_definitions(kvloupe_options INTERFACE EIGEN_USE_BLAS
  $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
target_link_libraries(kvloupe_options INTERFACE Threads::Threads)
# Loops marked "omp simd" may be vectorised; no OpenMP runtime.
target_compile_options(kvloupe_options INTERFACE -fopenmp-simd)
