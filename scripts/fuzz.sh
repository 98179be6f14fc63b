#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each for some seconds: scripts/fuzz.sh [SECONDS [TARGET ...]],
# default 60 and all. Needs the packages clang and libclang-rt-14-dev (of clang's own version). What is
# learnt stays in build-fuzz/corpus; a find is written to build-fuzz/finds/TARGET-*. The last lines are a
# table for docs/reliability.md.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for file in tests/fuzz/*_fuzz.cpp; do
    names+=("$(basename "$file" _fuzz.cpp)")
  done
fi
scripts/build.sh fuzz "${names[@]/#/fuzz_}"
mkdir -p build-fuzz/finds build-fuzz/log
# What libraries leak on a damaged file is not ours (HDF5 does).
export LSAN_OPTIONS=suppressions=$PWD/tests/leak_suppressions.txt:print_suppressions=0
table=""
found=0
for name in "${names[@]}"; do
  corpus=build-fuzz/corpus/$name
  mkdir -p "$corpus"
  dictionary=()
  [ ! -f "tests/fuzz/dictionaries/$name.dict" ] || dictionary=("-dict=tests/fuzz/dictionaries/$name.dict")
  log=build-fuzz/log/$name.log
  code=0
  # Memory and time that no input of this size justifies are finds too.
  "build-fuzz/bin/fuzz_$name" "$corpus" "tests/fuzz/seeds/$name" "${dictionary[@]}" \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 \
    -artifact_prefix="build-fuzz/finds/$name-" -print_final_stats=1 >"$log" 2>&1 || code=$?
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  inputs=$(find "$corpus" -type f | wc -l)
  finds=$(find build-fuzz/finds -name "$name-*" | wc -l)
  [ "$code" -eq 0 ] || found=1
  table+="| $name | ${executions:-?} | ${edges:-?} | $inputs | $finds |"$'\n'
  echo "fuzz: $name: ${executions:-?} executions, ${edges:-?} edges, exit code $code"
done
printf '\n| target | executions | edges covered | inputs kept | finds |\n| --- | ---: | ---: | ---: | ---: |\n%s' "$table"
exit $found
