#!/usr/bin/env bash
# Writes docs/toy-and-real.md: the demo model beside SmolLM2-135M-Instruct, the same measures on needles of some 1 000 tokens.
# scripts/claims/toy_and_real.sh [FOLDER]: results of scripts/claims/claims.sh (build/claims-100). The demo model's go to build/toy; what is
# there is kept. Needs build/bin and python3. THREADS (2): of each run.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/claims-100}
toy=build/toy
mkdir -p $toy/traces
build/bin/kvloupe-capture eval --model assets/demo-model --task needle --policies "keydiff,sink,tova,h2o,snapkv(pool=max)" \
  --budgets 25%,50% --lengths 1000 --depths 10,30,50,70,90 --samples 6 --dtype f32 --threads "${THREADS:-2}" --progress none \
  -o $toy/needle.json
rows=$(python3 -c "import json; print(*(row for row, run in enumerate(json.load(open('$toy/needle.json'))['runs']) if run['policy'] == 'full'))")
for row in $rows; do
  [ -e "$toy/traces/$row.h5" ] || build/bin/kvloupe-capture run --results $toy/needle.json --row "$row" --model assets/demo-model \
    --dtype f32 --threads "${THREADS:-2}" --progress none -o "$toy/traces/$row.h5" > /dev/null
done
cp assets/studies/toy/states.json $toy/states.json
build/bin/kvloupe study run $toy/states.json -o $toy/states.sqlite
python3 scripts/claims/toy_and_real_page.py $toy "$folder" docs/toy-and-real.md
