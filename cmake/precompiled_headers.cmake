# Headers that most files include, parsed once per target; parsing them is half of the time of a cold
# build. Only headers from outside the tree, so that no edit here rebuilds everything. Each file still
# includes what it uses: the debug preset builds without precompiled headers and finds missing includes.
set(KVLOUPE_STANDARD_HEADERS <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstdio>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span>
  <sstream> <stdexcept> <string> <string_view> <thread> <utility> <vector>)

# kvloupe_precompile(TARGET [HEADER ...]): the standard library's and these.
function(kvloupe_precompile target)
  target_precompile_headers(${target} PRIVATE ${KVLOUPE_STANDARD_HEADERS} ${ARGN})
endfunction()
