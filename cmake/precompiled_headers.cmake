# Headers that most files include, parsed once for all targets of a kind; parsing them is half of the time of a cold
# build. Only headers from outside the tree, so that no edit here rebuilds everything. Each file still
# includes what it uses: the debug preset builds without precompiled headers and finds missing includes. A test
# has the standard library from tests/support/test.h.
set(KVLOUPE_STANDARD_HEADERS <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstdio>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span>
  <sstream> <stdexcept> <string> <string_view> <thread> <utility> <variant> <vector>)
set(KVLOUPE_HEADERS_plain <Eigen/Core> <fmt/format.h> <nlohmann/json.hpp>)
set(KVLOUPE_HEADERS_drawing ${KVLOUPE_HEADERS_plain})
set(KVLOUPE_HEADERS_torch <ATen/ATen.h> ${KVLOUPE_HEADERS_plain})
set(KVLOUPE_HEADERS_test <gmock/gmock.h> <gtest/gtest.h> <iostream> <random> <ranges> <regex> ${KVLOUPE_HEADERS_plain})
set(KVLOUPE_HEADERS_unoptimised_test ${KVLOUPE_HEADERS_test})
set(KVLOUPE_HEADERS_torch_test ${KVLOUPE_HEADERS_test} <ATen/ATen.h>)
set(KVLOUPE_HEADERS_unoptimised_torch_test ${KVLOUPE_HEADERS_torch_test})

# Of code that a shared library may hold. Headers are parsed with the same.
set(KVLOUPE_OF_A_LIBRARY POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

# kvloupe_precompile(TARGET KIND): the standard library's headers and those of the kind.
function(kvloupe_precompile target kind)
  set(owner kvloupe_precompiled_${kind})
  if(NOT TARGET ${owner})
    file(WRITE ${CMAKE_BINARY_DIR}/generated/${owner}.cpp "")
    add_library(${owner} OBJECT ${CMAKE_BINARY_DIR}/generated/${owner}.cpp)
    target_link_libraries(${owner} PRIVATE kvloupe_options PkgConfig::EIGEN3 fmt::fmt nlohmann_json::nlohmann_json)
    if(kind MATCHES "test")
      target_link_libraries(${owner} PRIVATE GTest::gtest GTest::gmock)
    endif()
    if(kind MATCHES "torch")
      target_link_libraries(${owner} PRIVATE ${TORCH_LIBRARIES})
      if(Torch_VERSION VERSION_GREATER_EQUAL 2)
        target_compile_definitions(${owner} PRIVATE FMT_HEADER_ONLY)
      endif()
    endif()
    if(kind STREQUAL "plain")
      set_target_properties(${owner} PROPERTIES ${KVLOUPE_OF_A_LIBRARY})
    endif()
    if(kind STREQUAL "drawing")  # parsed with the options of the files that use them
      target_compile_options(${owner} PRIVATE ${KVLOUPE_DRAWING_OPTIMISATION})
    endif()
    if(kind MATCHES "^unoptimised")
      target_compile_options(${owner} PRIVATE $<$<CONFIG:Release>:-O0>)
    endif()
    target_precompile_headers(${owner} PRIVATE ${KVLOUPE_STANDARD_HEADERS} ${KVLOUPE_HEADERS_${kind}})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()
