# Headers most files read, parsed once per target: half of the time a cold build takes is theirs.
# Only headers from outside the tree, so that no edit here rebuilds everything. A file still names
# what it uses: the debug preset builds without precompiled headers and finds what is missing.
set(KVLOUPE_STANDARD_HEADERS <algorithm> <array> <charconv> <chrono> <cmath> <cstdint> <cstdio>
  <filesystem> <fstream> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span>
  <sstream> <stdexcept> <string> <string_view> <thread> <utility> <vector>)

# kvloupe_precompile(TARGET [HEADER ...]): the standard library's and these.
function(kvloupe_precompile target)
  target_precompile_headers(${target} PRIVATE ${KVLOUPE_STANDARD_HEADERS} ${ARGN})
endfunction()
