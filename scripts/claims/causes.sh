#!/usr/bin/env bash
# Why the evidence of an answer was lost, on the real model: scripts/claims/causes.sh [FOLDER [CLAIMS]]
# Replays build/real-model/needle.h5 with the policies below, and the cases of docs/cases.md where scripts/claims/cases.sh has left
# them in CLAIMS (build/claims-100); runs the needle's prompt with the beginning of its answer, looks for the heads that
# restore the answer, and drops the needle in each head alone. Writes the section "Why the evidence was lost" of
# docs/results-real.md. RUNS (90): runs of the search, THREADS (1): of each run. What is there is kept.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/causes}
claims=${2:-build/claims-100}
bin=${KVLOUPE_BIN:-build/bin}
model=build/real-model/model.gguf
threads=${THREADS:-1}
mkdir -p "$folder"

causes() { # TRACE POLICY BUDGET NAME
  [ -e "$folder/$4.json" ] || "$bin/kvloupe" replay "$1" --policy "$2" --budget "$3" --steps last \
    --measures evidence_cut,answer_residual_part --json "$folder/$4.json" > /dev/null
}
for policy in snapkv h2o keydiff snapkv+adakv; do
  causes build/real-model/needle.h5 "$policy" 25% "needle-$policy"
done
while read -r policy prompt; do
  trace=$(printf '%s/traces/needle-1000-%05d.h5' "$claims" "$prompt")
  name=${policy%%(*}
  [ -e "$claims/cases/$name.json" ] || continue
  cp -n "$claims/cases/$name.json" "$folder/rescue-$name.json"
  causes "$trace" "$policy" 50% "case-$name"
done <<'CASES'
h2o 2
tova 1
snapkv(pool=max) 7
sink 13
keydiff 27
CASES

{ perl -0pe 's/\n+\z/\n/' assets/prompts/real/needle.txt
  printf '@@context\nThe spare key to the old post office is kept in drawer'; } > "$folder/number.txt"
[ -e "$folder/number.h5" ] || "$bin/kvloupe-capture" run --model "$model" --prompt "$folder/number.txt" --generate 4 \
  --dtype f32 --threads "$threads" --attention none --progress none -o "$folder/number.h5"
causes "$folder/number.h5" snapkv 25% case-number
rescue() { # NAME OPTION...
  local name=$1
  shift
  "$bin/kvloupe-capture" rescue --model "$model" --trace "$folder/number.h5" --policy snapkv --budget 25% --segment needle \
    --expect ' 47' --dtype f32 --threads "$threads" --progress none -o "$folder/$name.json" "$@"
}
rescue rescue-number --runs "${RUNS:-90}"
[ -e "$folder/leave-one-out.json" ] || cp "$folder/rescue-number.json" "$folder/leave-one-out.json"  # its runs serve again
rescue leave-one-out --leave-one-out
"$bin/kvloupe" export "$folder/leave-one-out.json" --figure cause-scatter -o docs/images/real/cause-scatter.svg
python3 scripts/claims/causes_page.py "$folder" docs/results-real.md
