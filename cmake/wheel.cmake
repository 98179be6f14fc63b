# The programs as a Python wheel holds them (scripts/wheel.sh): linked a second time, without MPI, whose library and
# launcher must be those of the machine. A study in the wheel's programs uses all cores of one machine; its shards go to
# many. Nothing else is compiled for them.

# kvloupe_program_of_wheel(PROGRAM library ...): target PROGRAM-of-wheel, from the main.cpp of the same folder.
function(kvloupe_program_of_wheel program)
  get_target_property(sources ${program} SOURCES)
  # This folder knows no KVLOUPE_MPI. The linker takes what it defines, and leaves the library's own file out.
  add_executable(${program}-of-wheel EXCLUDE_FROM_ALL ${sources} ${kvloupe_SOURCE_DIR}/analysis/study/mpi/ranks.cpp)
  target_link_libraries(${program}-of-wheel PRIVATE ${ARGN})
  target_link_options(${program}-of-wheel PRIVATE LINKER:--as-needed LINKER:--strip-all)
  set_target_properties(${program}-of-wheel PROPERTIES OUTPUT_NAME ${program}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/wheel/bin)
endfunction()
