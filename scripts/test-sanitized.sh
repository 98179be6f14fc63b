#!/usr/bin/env bash
# Builds tests with address and undefined-behaviour sanitizers and runs the fast ones:
#   scripts/test-sanitized.sh [--build] [TARGET ...]
# With --build it only builds.
# Default: the tests of analysis, of the tokenizers and of the figures. The preset `sanitize` leaves out the checks of
# pointers (null, alignment, vptr, object size), which make compiling three times as slow; the preset `asan` has them
# all.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
scripts/setup.sh
only_build=false
[ "${1:-}" != --build ] || { only_build=true && shift; }
[ $# -gt 0 ] || set -- test_analysis_fast test_tokenizer_fast test_figure_fast
[ -x build/bin/kvloupe ] || scripts/build.sh release kvloupe # tests start it
# Addresses that are drawn from all too many collide with the sanitizer's own now and then.
still=()
setarch -R true 2>/dev/null && still=(setarch -R)
# Leaks are found by tracing the process, which some containers forbid; building starts the tests, too.
export ASAN_OPTIONS=detect_leaks=0
"${still[@]}" scripts/build.sh sanitize "$@"
$only_build && exit 0
if ASAN_OPTIONS="" "build-sanitize/bin/$1" --gtest_list_tests >/dev/null 2>&1; then
  unset ASAN_OPTIONS
else
  echo "test-sanitized: leaks are not looked for: this system does not let a process be traced"
fi
# Half of the time goes to the same checks on more models, and on more sizes and themes of each figure. CI runs these
# without sanitizers, below, and the others only with them.
plain='*Groups/ReplayAgainstNaive*:*Shapes/ReplayAgainstNaive*:*Chunks/ReplayAgainstNaive*:*CombinationsOfASetting*:*EveryTextReads*:*ScenesAreSoundInEvery*:*WindowTest.OneThatHides*'
filter='*'
[ "${CI:-}" = true ] && filter="-$plain"
# All tests of a program in few processes, one per core at a time: starting one with a sanitizer takes longer than most
# tests do.
export LSAN_OPTIONS=suppressions=$PWD/tests/leak_suppressions.txt
export GTEST_TOTAL_SHARDS=$((4 * $(nproc)))
# The programs of one build, shard by shard.
shards() {
  local folder=$1 name shard
  shift
  for name in "$@"; do
    for ((shard = 0; shard < GTEST_TOTAL_SHARDS; ++shard)); do
      printf '%s\0' "$shard $folder/bin/$name"
    done
  done
}
shards build-sanitize "$@" | xargs -0 -P "$(nproc)" -I{} "${still[@]}" bash -o pipefail -c 'set -- {}
  # Through a pipe: where tests limit the size of files, a sanitizer that reports to a long file waits for itself.
  GTEST_SHARD_INDEX=$1 timeout 1800 "$2" --gtest_filter="$0" --gtest_brief=1 2>&1 | cat' "$filter" || {
  echo "test-sanitized: a test failed, or a sanitizer found something: see above" >&2
  exit 1
}
[ "${CI:-}" = true ] || exit 0
shards build "$@" | xargs -0 -P "$(nproc)" -I{} bash -c 'set -- {}
  GTEST_SHARD_INDEX=$1 timeout 1800 "$2" --gtest_filter="$0" --gtest_brief=1' "$plain" || {
  echo "test-sanitized: a test failed: see above" >&2
  exit 1
}
