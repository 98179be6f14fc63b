#!/usr/bin/env bash
# Writes docs/cases.md and its figures: for each policy one prompt that the full cache answers and the policy does not,
# followed to the heads that lost the needle and rescued in the running model. scripts/claims/cases.sh [FOLDER]
# Prompts and traces are those of scripts/claims/claims.sh in FOLDER (build/claims-100); results go to FOLDER/cases. What is there is
# kept. RUNS (100): at most so many runs of the model for each case, THREADS (2): of each run. Needs build/bin and python3.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/claims-100}
mkdir -p "$folder/cases" docs/images/cases
# policy, prompt, the text that is right
while read -r policy prompt right; do
  name=${policy%%(*}
  trace=$(printf '%s/traces/needle-1000-%05d.h5' "$folder" "$prompt")
  [ -e "$trace" ] || { echo "cases.sh: $trace is missing; run scripts/claims/claims.sh 100 $folder" >&2; exit 1; }
  build/bin/kvloupe-capture rescue --model build/real-model/model.gguf --trace "$trace" --policy "$policy" --budget 50% \
    --segment needle --expect " $right" --runs "${RUNS:-100}" --dtype f32 --threads "${THREADS:-2}" --progress none \
    -o "$folder/cases/$name.json"
  build/bin/kvloupe follow "$trace" --segment needle --policy "$policy" --budget 50% --json "$folder/cases/$name-follow.json" \
    > /dev/null
  build/bin/kvloupe export "$folder/cases/$name.json" --figure rescue -o "docs/images/cases/$name.svg"
done <<'CASES'
h2o 2 synonym
tova 1 burden
snapkv(pool=max) 7 reference
sink 13 identifier
keydiff 27 "believe
CASES
python3 scripts/claims/cases_page.py "$folder" docs/cases.md
