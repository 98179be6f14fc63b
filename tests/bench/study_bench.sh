#!/usr/bin/env bash
# A study of 200 replays, 5 policies × 4 budgets on ten prompts of about 1 000 tokens in the demo model, beside what it
# replaces: `kvloupe sweep`, called for each trace, and for each trace, policy and budget.
# tests/bench/study_bench.sh [BUILD FOLDER [RUNS]]: of each of so many (3) runs the seconds that passed and, in brackets,
# those of the processor; the second number means something on a busy machine too. A sweep computes every measure that is not on
# request; one study computes the same, one a single measure. Needs python3; mpirun for the last lines, where one process
# or two compute on a core each, beside one that plans.
set -euo pipefail
bin=$(cd "${1:-build}/bin" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

capture=${KVLOUPE_CAPTURE:-$bin/kvloupe-capture}
for number in 0 1 2 3 4 5 6 7 8 9; do
  tail -c +$((1 + number * 900)) "$source/assets/prompts/long.txt" | head -c 4600 >prompt.txt
  "$capture" run --model "$source/assets/demo-model" --prompt prompt.txt --generate 8 \
    --block 64 --progress none -o "demo$number.h5" >/dev/null 2>&1
done

policies=("h2o" "keydiff+recent(10%)" "snapkv+adakv" "tova" "sink")
budgets=(10% 20% 40% 64)
quoted() { printf '"%s",' "$@" | sed 's/,$//'; }
study() { # NAME MEASURE...
  local name=$1
  shift
  echo "{\"traces\": [\"demo*.h5\"], \"policies\": [$(quoted "${policies[@]}")]," \
    "\"budgets\": [$(quoted "${budgets[@]}")], \"measures\": [$(quoted "$@")]}" >"$name.json"
}
listed() { local IFS=,; echo "$*"; }
study one perturbation_l1
study all $("$bin/kvloupe" measures --json | python3 -c '
import json, sys
for measure in json.load(sys.stdin)["measures"]:
    if not measure["on_request"]: print(measure["name"])')

single_sweeps() {
  for trace in demo*.h5; do
    for policy in "${policies[@]}"; do
      for budget in "${budgets[@]}"; do
        "$bin/kvloupe" sweep "$trace" --policies "$policy" --budgets "$budget" -o "$trace.csv" 2>/dev/null
      done
    done
  done
}
sweeps() {
  for trace in demo*.h5; do
    "$bin/kvloupe" sweep "$trace" --policies "$(listed "${policies[@]}")" \
      --budgets "$(listed "${budgets[@]}")" -o "$trace.csv" 2>/dev/null
  done
}
timed() { # LABEL COMMAND...
  local label=$1 run
  shift
  printf '%-46s' "$label"
  for ((run = 0; run < ${runs:-3}; ++run)); do
    rm -f ./*.csv ./*.sqlite
    TIMEFORMAT='%R %U %S'
    { time "$@" >/dev/null 2>&1; } 2>time.txt
    awk '{ printf " %7.2f (%.2f)", $1, $2 + $3 }' time.txt
  done
  echo
}
runs=${2:-3}
timed "sweeps, one per replay" single_sweeps
timed "sweeps, one per trace" sweeps
timed "study, the same measures" "$bin/kvloupe" study all.json -o all.sqlite
timed "study, one measure" "$bin/kvloupe" study one.json -o one.sqlite
if command -v mpirun >/dev/null; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # Process 0 plans on core 1; the others compute, on core 0 and on core 1.
  on_cores='exec taskset -c $((1 - OMPI_COMM_WORLD_RANK % 2)) "$@"'
  for processes in 2 3; do
    timed "study, the same measures, $((processes - 1)) of $processes compute" mpirun --oversubscribe --bind-to none \
      -n $processes bash -c "$on_cores" kvloupe "$bin/kvloupe" study all.json -o all.sqlite
  done
fi
