# The demo model's corpus and trainer: a developers' program, not installed, built with -DKVLOUPE_TRAIN=ON.
file(GLOB TRAIN_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/train/*.cpp)
list(FILTER TRAIN_SOURCES EXCLUDE REGEX "/main\\.cpp$")
add_library(kvloupe_train_core STATIC ${TRAIN_SOURCES})
target_link_libraries(kvloupe_train_core PUBLIC kvloupe_capture
  PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
kvloupe_precompile(kvloupe_train_core torch)
add_executable(kvloupe-train train/main.cpp)
target_link_libraries(kvloupe-train PRIVATE kvloupe_train_core CLI11::CLI11)
