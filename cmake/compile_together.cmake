# Files compiled several at a time: headers and templates are then read and made once for all of them, which about
# halves the time of a cold build. For builds beside the normal one, which compiles each file alone and so finds what a
# file forgets to include.
set(KVLOUPE_TOGETHER OFF CACHE STRING "What is compiled several files at a time: OFF, tests (their files), or ON (all)")
set_property(CACHE KVLOUPE_TOGETHER PROPERTY STRINGS OFF tests ON)

# kvloupe_compile_together(TARGET GROUPS n [TESTS] [ALONE PATTERN ...]): in n groups; TESTS: the files are of tests. A
# file's group depends on its name alone, so that a new file changes its own group only. Names in anonymous namespaces
# must differ within a group: rename one, or let a file be compiled alone, by a regular expression for its path.
function(kvloupe_compile_together target)
  cmake_parse_arguments(PARSE_ARGV 1 with "TESTS" "GROUPS" "ALONE")
  if(NOT KVLOUPE_TOGETHER OR (KVLOUPE_TOGETHER STREQUAL "tests" AND NOT with_TESTS))
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    set(alone FALSE)
    foreach(pattern ${with_ALONE})
      if(source MATCHES "${pattern}")
        set(alone TRUE)
      endif()
    endforeach()
    if(alone)
      continue()
    endif()
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
    string(MD5 hash ${path})
    string(SUBSTRING ${hash} 0 4 hash)
    math(EXPR group "0x${hash} % ${with_GROUPS}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${target}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
