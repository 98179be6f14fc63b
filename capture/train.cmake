# The demo model's corpus and trainer: a developers' program, not installed, built with -DKVLOUPE_TRAIN=ON.
file(GLOB TRAIN_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/train/*.cpp)
list(FILTER TRAIN_SOURCES EXCLUDE REGEX "/main\\.cpp$")
add_library(kvloupe_train_core STATIC ${TRAIN_SOURCES})
target_link_libraries(kvloupe_train_core PUBLIC kvloupe_capture
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
kvloupe_precompile(kvloupe_train_core torch)
add_executable(kvloupe-train train/main.cpp)
target_link_libraries(kvloupe-train PRIVATE kvloupe_train_core CLI11::CLI11)
# Attention in training is compiled per instruction set and chosen at run time.
set(TILE_OPTIONS -O3 -ffast-math -fno-finite-math-only -Wno-psabi)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_definitions(kvloupe_train_core PRIVATE KVLOUPE_TILE_X86)
  set_source_files_properties(train/tile_product_avx2.cpp PROPERTIES
    COMPILE_OPTIONS "${TILE_OPTIONS};-march=haswell")
  set_source_files_properties(train/tile_product_avx512.cpp PROPERTIES
    COMPILE_OPTIONS "${TILE_OPTIONS};-march=skylake-avx512;-mprefer-vector-width=512")
endif()
set_source_files_properties(train/tile_product.cpp PROPERTIES COMPILE_OPTIONS "${TILE_OPTIONS}")
set_source_files_properties(train/tile_product.cpp train/tile_product_avx2.cpp
  train/tile_product_avx512.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
