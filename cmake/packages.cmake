# The files installed beside the programs, and the Debian packages that cpack makes of everything:
#   scripts/package.sh          builds and calls cpack -G DEB
#   scripts/check-package.sh    installs the package in a fresh system, uses it, and removes it
# Install rules without a component make the package kvloupe; those of the component Development make
# kvloupe-dev.

# ---- what the programs read ----
install(DIRECTORY assets/ DESTINATION ${CMAKE_INSTALL_DATADIR}/kvloupe PATTERN desktop EXCLUDE PATTERN results EXCLUDE)

# ---- what a person reads ----
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES cmake/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

# ---- the desktop: menu, icon, type of a trace, software catalogues ----
if(KVLOUPE_APP)
  set(DESKTOP assets/desktop)
  set(ICONS ${CMAKE_INSTALL_DATADIR}/icons/hicolor)
  install(FILES ${DESKTOP}/kvloupe.desktop DESTINATION ${CMAKE_INSTALL_DATADIR}/applications)
  install(FILES ${DESKTOP}/kvloupe.svg DESTINATION ${ICONS}/scalable/apps)
  install(FILES ${DESKTOP}/kvloupe.svg DESTINATION ${ICONS}/scalable/mimetypes
    RENAME application-x-kvloupe-trace.svg)
  foreach(size 48 128)  # rsvg-convert -w SIZE -h SIZE kvloupe.svg -o kvloupe-SIZE.png
    install(FILES ${DESKTOP}/kvloupe-${size}.png DESTINATION ${ICONS}/${size}x${size}/apps
      RENAME kvloupe.png)
  endforeach()
  install(FILES ${DESKTOP}/kvloupe.xml DESTINATION ${CMAKE_INSTALL_DATADIR}/mime/packages)
  install(FILES ${DESKTOP}/org.kvloupe.kvloupe.metainfo.xml
    DESTINATION ${CMAKE_INSTALL_DATADIR}/metainfo)
endif()

# ---- Debian packages ----
set(KVLOUPE_MAINTAINER "The kvloupe authors <kvloupe@users.noreply.github.com>" CACHE STRING
  "Name and address in the Debian packages")
string(TIMESTAMP KVLOUPE_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
find_program(DPKG dpkg)
find_program(GZIP gzip)
if(DPKG AND GZIP)
  set(DEBIAN_FILES ${CMAKE_BINARY_DIR}/debian)
  configure_file(cmake/debian/changelog.in ${DEBIAN_FILES}/changelog @ONLY)
  execute_process(COMMAND ${GZIP} -9 -n -f -k ${DEBIAN_FILES}/changelog)
  install(FILES ${DEBIAN_FILES}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES cmake/debian/lintian-overrides
    DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME kvloupe)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME kvloupe)
set(CPACK_PACKAGE_CONTACT "${KVLOUPE_MAINTAINER}")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Summary and description stand together below, one for each package; CPack puts any other summary above
# both.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "kvloupe built using CMake")

# Figures are set in these fonts; products of matrices are 60 times slower without this OpenBLAS.
set(DEPENDS "fonts-inter, fonts-jetbrains-mono, fonts-dejavu-core, libopenblas0-pthread")
set(RECOMMENDS "fonts-noto-core, fonts-droid-fallback, libgl1-mesa-dri")
set(DESCRIPTION
"see what a KV-cache policy does, head by head
kvloupe shows what an eviction or merging policy does inside a real
language model: which tokens each layer and head keeps, evicts or
protects, step by step, and how much the output changes.

kvloupe-capture runs a model on a prompt and writes a trace. kvloupe
replays any policy on it, in a window or from the command line, and
writes every picture as SVG, PDF, PNG, CSV or a web page. A demo model
and lessons come with it.")
# CPack asks for the first names where there is one package, and for the second ones where there are two.
foreach(package DEBIAN_PACKAGE DEBIAN_KVLOUPE_PACKAGE)
  set(CPACK_${package}_NAME kvloupe)
  set(CPACK_${package}_SECTION science)
  set(CPACK_${package}_DEPENDS "${DEPENDS}")
  set(CPACK_${package}_RECOMMENDS "${RECOMMENDS}")
endforeach()
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "${DESCRIPTION}")
set(CPACK_DEBIAN_KVLOUPE_DESCRIPTION "${DESCRIPTION}")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME kvloupe-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "kvloupe (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS "")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
"policies of your own for kvloupe: headers and CMake package
The headers of the policy interface and a CMake package, to build a
policy as a shared library that both programs load.")
include(CPack)
