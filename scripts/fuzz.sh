#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each for some seconds: scripts/fuzz.sh [SECONDS [TARGET ...]],
# default 60 and all. A target ends earlier after a million executions (KVLOUPE_FUZZ_RUNS); KVLOUPE_FUZZ_JOBS of
# them run at a time, default one. Needs the packages clang and libclang-rt-14-dev (of clang's own version). New
# inputs stay in build-fuzz/corpus; a find is written to build-fuzz/finds/TARGET-*. The last lines are a table for
# docs/reliability.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
seconds=${1:-60}
shift || true
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for file in tests/fuzz/*_fuzz.cpp; do
    names+=("$(basename "$file" _fuzz.cpp)")
  done
fi
scripts/build.sh fuzz "${names[@]/#/fuzz_}"
rows=build-fuzz/rows
mkdir -p build-fuzz/finds build-fuzz/log $rows
# Leaks of libraries on a damaged file are not kvloupe's (HDF5 has them).
export LSAN_OPTIONS=suppressions=$PWD/tests/leak_suppressions.txt:print_suppressions=0
TIMEFORMAT=%U

fuzz() {
  local name=$1 code=0 corpus=build-fuzz/corpus/$1 log=build-fuzz/log/$1.log dictionary=() processor
  mkdir -p "$corpus"
  [ ! -f "tests/fuzz/dictionaries/$name.dict" ] || dictionary=("-dict=tests/fuzz/dictionaries/$name.dict")
  # Memory and time that no input of this size justifies are finds too. The time is a clock's, not the processor's:
  # several at once on few cores need more of it.
  processor=$({ time "build-fuzz/bin/fuzz_$name" "$corpus" "tests/fuzz/seeds/$name" "${dictionary[@]}" \
    -runs="${KVLOUPE_FUZZ_RUNS:-1000000}" -max_total_time="$seconds" -timeout=$((10 * ${KVLOUPE_FUZZ_JOBS:-1})) \
    -rss_limit_mb=2048 -malloc_limit_mb=512 -artifact_prefix="build-fuzz/finds/$name-" -print_final_stats=1 \
    >"$log" 2>&1; } 2>&1) || code=$?
  local executions edges inputs finds
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  inputs=$(find "$corpus" -type f | wc -l)
  finds=$(find build-fuzz/finds -name "$name-*" | wc -l)
  echo "| $name | ${executions:-?} | $(awk "BEGIN {printf \"%.0f\", $processor / 60}") | ${edges:-?} | $inputs | $finds |" \
    >"$rows/$name"
  echo "fuzz: $name: ${executions:-?} executions, ${edges:-?} edges, exit code $code"
  return "$code"
}

found=0
running=0
for name in "${names[@]}"; do
  if [ "$running" -ge "${KVLOUPE_FUZZ_JOBS:-1}" ]; then
    wait -n || found=1
    running=$((running - 1))
  fi
  fuzz "$name" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || found=1
  running=$((running - 1))
done
echo
echo "| target | executions | minutes of a core | edges covered | inputs kept | finds |"
echo "| --- | ---: | ---: | ---: | ---: | ---: |"
for name in "${names[@]}"; do cat "$rows/$name"; done
exit $found
