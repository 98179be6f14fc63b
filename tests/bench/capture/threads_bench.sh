#!/usr/bin/env bash
# Captures with one thread, two, and the default number, on the machine as it is and beside a process
# that keeps each processor busy: tests/bench/capture/threads_bench.sh BUILD [RUNS [TOKENS [FOLDER]]]
# Medians of RUNS (3) captures of TOKENS (512) tokens of a model with random weights in the shape of
# SmolLM2-135M, taken in turn. FOLDER keeps the model (0.5 GB). Fails where any number of threads
# takes 1.1 times as long as one thread or more.
set -euo pipefail
build=$1
runs=${2:-3}
tokens=${3:-512}
scratch=$(mktemp -d)
folder=${4:-$scratch/model}
busy=()
stop_busy() {
  local process
  for process in "${busy[@]}"; do kill "$process" 2>/dev/null || true; done
  busy=()
}
trap 'stop_busy; rm -rf "$scratch"' EXIT

[ -e "$folder/model.safetensors.index.json" ] ||
  "$build/bin/kvloupe_prefill_bench" "$folder" 1 8 small >/dev/null
for ((i = 0; i < tokens; ++i)); do echo $(((i * 7919 + i * i * 31) % 49152)); done >"$scratch/ids.txt"

# THREADS FILE: appends the seconds that passed and the processor's.
capture() {
  local threads=() TIMEFORMAT='%R %U %S'
  [ "$1" = default ] || threads=(--threads "$1")
  { time "$build/bin/kvloupe-capture" run --model "$folder" --ids "$scratch/ids.txt" --dtype f32 --attention none \
    --progress none "${threads[@]}" -o "$scratch/trace.h5" 2>/dev/null; } 2>&1 |
    awk '{ printf "%.2f %.2f\n", $1, $2 + $3 }' >>"$2"
  rm -f "$scratch/trace.h5"
}
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

failed=0
for around in idle busy; do
  if [ $around = busy ]; then
    for ((i = 0; i < $(nproc); ++i)); do
      (while :; do :; done) &
      busy+=($!)
    done
  fi
  for ((run = 0; run < runs; ++run)); do
    for threads in 1 2 default; do capture "$threads" "$scratch/$around-$threads"; done
  done
  stop_busy
  for threads in 1 2 default; do
    wall=$(cut -d' ' -f1 "$scratch/$around-$threads" | median)
    processor=$(cut -d' ' -f2 "$scratch/$around-$threads" | median)
    [ "$threads" != 1 ] || one=$wall
    ratio=$(awk -v a="$wall" -v b="$one" 'BEGIN { printf "%.2f", a / b }')
    printf '%s, threads %-7s  %7.2f s passed  %7.2f s of processor  %s of one thread\n' \
      "$around" "$threads" "$wall" "$processor" "$ratio"
    awk -v r="$ratio" 'BEGIN { exit r < 1.1 ? 0 : 1 }' || failed=1
  done
done
exit $failed
