# Folders, targets and the table in docs/architecture.md say the same: each row of the table is a library, which links
# what the row's arrows name and the libraries of its last column. Each folder is also linked alone, with nothing but what
# it names (target `arrows`): the linker stops where a folder uses another one without an arrow.

# The libraries by their names in the table.
set(KVLOUPE_LIBRARY_Eigen PkgConfig::EIGEN3 PkgConfig::OPENBLAS)  # its products are OpenBLAS's
set(KVLOUPE_LIBRARY_fmt fmt::fmt)
set(KVLOUPE_LIBRARY_JSON nlohmann_json::nlohmann_json)
set(KVLOUPE_LIBRARY_CLI11 CLI11::CLI11)
set(KVLOUPE_LIBRARY_oneTBB TBB::tbb)
set(KVLOUPE_LIBRARY_HDF5 PkgConfig::HDF5)
set(KVLOUPE_LIBRARY_OpenSSL PkgConfig::CRYPTO)
set(KVLOUPE_LIBRARY_zlib PkgConfig::ZLIB)
set(KVLOUPE_LIBRARY_OpenBLAS PkgConfig::OPENBLAS)
set(KVLOUPE_LIBRARY_muParser PkgConfig::MUPARSER)
set(KVLOUPE_LIBRARY_SQLite PkgConfig::SQLITE)
set(KVLOUPE_LIBRARY_MPI "${MPI_CXX_LIBRARIES}")
set(KVLOUPE_LIBRARY_libtorch "${TORCH_LIBRARIES}")
set(KVLOUPE_LIBRARY_PCRE2 PkgConfig::PCRE2)
set(KVLOUPE_LIBRARY_utf8proc PkgConfig::UTF8PROC)
set(KVLOUPE_LIBRARY_ImGui PkgConfig::IMGUI)
set(KVLOUPE_LIBRARY_GLFW PkgConfig::GLFW)
set(KVLOUPE_LIBRARY_OpenGL OpenGL::OpenGL)
set(KVLOUPE_LIBRARY_Cairo PkgConfig::CAIRO)
set(KVLOUPE_LIBRARY_Fontconfig PkgConfig::FONTCONFIG)
set(KVLOUPE_LIBRARY_FreeType PkgConfig::FREETYPE)
set(KVLOUPE_LIBRARY_HarfBuzz PkgConfig::HARFBUZZ)
set(KVLOUPE_LIBRARY_FriBidi PkgConfig::FRIBIDI)
set(KVLOUPE_LIBRARY_libpng PkgConfig::PNG)

# What draws has few loops of its own (numbers come from analysis): more than this costs a third of its building and is
# not seen in its speed. (This flag comes after the build type's own -O.)
set(KVLOUPE_DRAWING_OPTIMISATION "$<$<CONFIG:Release>:-O1>")

# The target of a folder: kvloupe_analysis_policy for analysis/policy. That of `analysis` itself is kvloupe_analysis_base,
# since kvloupe_analysis is all of its folders.
function(kvloupe_folder_target folder variable)
  string(REPLACE "/" "_" name ${folder})
  set(${variable} kvloupe_${name} PARENT_SCOPE)
endfunction()

add_custom_target(arrows COMMENT "Each folder was linked with what its row names")
file(WRITE ${CMAKE_BINARY_DIR}/generated/no_program.cpp "int main() { return 0; }\n")

# kvloupe_folder(FOLDER SEES folder ... LIBRARIES name ... GROUPS n ALONE pattern ... MORE file ...)
# GROUPS: in how many pieces its files are compiled. MORE: generated files.
function(kvloupe_folder folder)
  cmake_parse_arguments(PARSE_ARGV 1 with "" "GROUPS" "SEES;LIBRARIES;ALONE;MORE")
  kvloupe_folder_target(${folder} target)
  file(GLOB sources CONFIGURE_DEPENDS ${kvloupe_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  add_library(${target} STATIC ${sources} ${with_MORE})
  target_link_libraries(${target} PUBLIC kvloupe_options)
  foreach(seen ${with_SEES})
    kvloupe_folder_target(${seen} other)
    target_link_libraries(${target} PUBLIC ${other})
  endforeach()
  foreach(library ${with_LIBRARIES})
    if(NOT DEFINED KVLOUPE_LIBRARY_${library})
      message(FATAL_ERROR "${folder}: the library ${library} is not in cmake/folders.cmake")
    endif()
    if(library MATCHES "^(Eigen|fmt|libtorch|ImGui)$")  # their headers are in ours
      target_link_libraries(${target} PUBLIC ${KVLOUPE_LIBRARY_${library}})
    else()
      target_link_libraries(${target} PRIVATE ${KVLOUPE_LIBRARY_${library}})
    endif()
  endforeach()
  if(NOT with_GROUPS)
    set(with_GROUPS 1)
  endif()
  kvloupe_compile_together(${target} GROUPS ${with_GROUPS} ALONE ${with_ALONE})
  if("libtorch" IN_LIST with_LIBRARIES OR folder MATCHES "^capture/(run|eval|cli)$")
    kvloupe_precompile(${target} torch)
  elseif(folder MATCHES "^app/")
    target_compile_options(${target} PRIVATE ${KVLOUPE_DRAWING_OPTIMISATION})
    kvloupe_precompile(${target} drawing)
  else()
    # May become a part of the engine's shared library (analysis/engine), which exports its C functions and no more.
    set_target_properties(${target} PROPERTIES ${KVLOUPE_OF_A_LIBRARY})
    kvloupe_precompile(${target} plain)
  endif()
  add_executable(arrows_${target} EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/no_program.cpp)
  target_link_libraries(arrows_${target} PRIVATE
    -Wl,--whole-archive $<TARGET_FILE:${target}> -Wl,--no-whole-archive ${target})
  set_target_properties(arrows_${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/arrows)
  add_dependencies(arrows arrows_${target})
  set_property(GLOBAL APPEND PROPERTY KVLOUPE_FOLDERS ${folder})
  set_property(GLOBAL PROPERTY KVLOUPE_SEES_${folder} ${with_SEES})
endfunction()
