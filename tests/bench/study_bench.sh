#!/usr/bin/env bash
# A study of 5 policies × 4 budgets on three traces of the demo model, beside what it replaces: a loop
# of `kvloupe sweep` calls. tests/bench/study_bench.sh [BUILD FOLDER]; three runs of each, in seconds.
# A sweep computes every measure that is not on request; one study computes the same, one a single
# measure. Needs python3, mpirun for the last line.
set -euo pipefail
bin=$(cd "${1:-build}/bin" && pwd)
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

capture=${KVLOUPE_CAPTURE:-$bin/kvloupe-capture}
for characters in 4000 6000 8000; do
  head -c "$characters" "$source/assets/prompts/long.txt" >prompt.txt
  "$capture" run --model "$source/assets/demo-model" --prompt prompt.txt --generate 8 \
    --block 64 --progress none -o "demo$characters.h5" >/dev/null 2>&1
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

sweeps() {
  for trace in demo*.h5; do
    "$bin/kvloupe" sweep "$trace" --policies "$(listed "${policies[@]}")" \
      --budgets "$(listed "${budgets[@]}")" -o "$trace.csv" 2>/dev/null
  done
}
timed() { # LABEL COMMAND...
  local label=$1 run
  shift
  printf '%-44s' "$label"
  for run in 1 2 3; do
    rm -f ./*.csv ./*.sqlite
    local start end
    start=$(date +%s%N)
    "$@" >/dev/null 2>&1
    end=$(date +%s%N)
    awk -v ns=$((end - start)) 'BEGIN { printf " %7.2f", ns / 1e9 }'
  done
  echo
}
timed "sweeps, one per trace" sweeps
timed "study, the same measures" "$bin/kvloupe" study all.json -o all.sqlite
timed "study, one measure" "$bin/kvloupe" study one.json -o one.sqlite
if command -v mpirun >/dev/null; then
  timed "study, the same measures, 3 processes" mpirun --oversubscribe --bind-to none -n 3 "$bin/kvloupe" \
    study all.json -o all.sqlite
fi
