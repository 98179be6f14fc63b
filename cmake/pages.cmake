# Manual pages and completion, written by the programs themselves (analysis/base/cli/command_pages.h).
# kvloupe_pages(PROGRAM): builds and installs those of one program.
find_program(GZIP gzip)
set(KVLOUPE_PAGES ${CMAKE_BINARY_DIR}/pages)
add_custom_target(pages ALL)
file(MAKE_DIRECTORY ${KVLOUPE_PAGES})

function(kvloupe_pages program)
  # A program built for another machine, or with sanitizers, is not run by the build.
  if(CMAKE_CROSSCOMPILING OR KVLOUPE_SANITIZE)
    return()
  endif()
  set(man ${KVLOUPE_PAGES}/${program}.1)
  set(files ${man} ${KVLOUPE_PAGES}/${program}.bash ${KVLOUPE_PAGES}/_${program})
  set(compress "")
  set(installed_man ${man})
  if(GZIP)
    set(installed_man ${man}.gz)
    set(compress COMMAND ${GZIP} -9 -n -f -k ${man})  # as Debian wants its pages
  endif()
  add_custom_command(OUTPUT ${files} ${installed_man}
    COMMAND ${program} --print-page man > ${man}
    COMMAND ${program} --print-page bash > ${KVLOUPE_PAGES}/${program}.bash
    COMMAND ${program} --print-page zsh > ${KVLOUPE_PAGES}/_${program}
    ${compress}
    DEPENDS ${program} VERBATIM)
  add_custom_target(pages-${program} DEPENDS ${files} ${installed_man})
  add_dependencies(pages pages-${program})
  install(FILES ${installed_man} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${KVLOUPE_PAGES}/${program}.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program})
  install(FILES ${KVLOUPE_PAGES}/_${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endfunction()
