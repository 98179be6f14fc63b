# The commit that --version tells: of the repository at configure time, of the archive that git made from
# it (a release's .tar.gz), or "unknown".
set(KVLOUPE_COMMIT "$Format:%h$")  # git archive writes it here
if(KVLOUPE_COMMIT MATCHES "Format:")
  set(KVLOUPE_COMMIT "unknown")
  find_package(Git QUIET)
  if(GIT_FOUND AND EXISTS ${kvloupe_SOURCE_DIR}/.git)
    # The commit of this tree, not of another repository around it.
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=10 HEAD
      WORKING_DIRECTORY ${kvloupe_SOURCE_DIR} OUTPUT_VARIABLE HEAD OUTPUT_STRIP_TRAILING_WHITESPACE
      RESULT_VARIABLE FAILED ERROR_QUIET)
    # A commit writes a line there: the next build configures anew, and compiles two small files.
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
      WORKING_DIRECTORY ${kvloupe_SOURCE_DIR} OUTPUT_VARIABLE LOG OUTPUT_STRIP_TRAILING_WHITESPACE
      ERROR_QUIET)
    if(NOT FAILED)
      set(KVLOUPE_COMMIT ${HEAD})
      get_filename_component(LOG "${LOG}" ABSOLUTE BASE_DIR ${kvloupe_SOURCE_DIR})
      if(EXISTS ${LOG})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${LOG})
      endif()
    endif()
  endif()
endif()
configure_file(${kvloupe_SOURCE_DIR}/analysis/base/core/commit.h.in ${CMAKE_BINARY_DIR}/generated/commit.h @ONLY)
