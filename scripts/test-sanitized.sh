#!/usr/bin/env bash
# Builds tests with address and undefined-behaviour sanitizers and runs the fast ones:
#   scripts/test-sanitized.sh [TARGET ...]
# Default: the tests of analysis, of the tokenizers and of the figures. The preset `sanitize` leaves out the checks of
# pointers (null, alignment, vptr, object size), which make compiling three times as slow; the preset `asan` has them
# all.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
[ $# -gt 0 ] || set -- test_analysis_fast test_tokenizer_fast test_figure_fast
[ -x build/bin/kvloupe ] || scripts/build.sh release kvloupe # tests start it
scripts/build.sh sanitize "$@"
# CI leaves out what takes half of the time and runs code that other tests run, too: the same checks on more models,
# and on more sizes and themes of each figure.
less=()
if [ "${CI:-}" = true ]; then
  less=(-E 'Groups/ReplayAgainstNaive|CombinationsOfASetting|EveryTextReads|ScenesAreSoundInEvery|WindowTest.OneThatHides')
fi
# What is not built has no label.
exec ctest --test-dir build-sanitize --output-on-failure --parallel "$(nproc)" -L fast "${less[@]}"
