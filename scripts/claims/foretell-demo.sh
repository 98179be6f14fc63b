#!/usr/bin/env bash
# Which number of a replay foretells the demo model's answers? scripts/claims/foretell-demo.sh [FOLDER [COUNT]]
# The same as scripts/claims/foretell.sh with the demo model and its language, one hidden number and four: writes COUNT (30)
# prompts of each to FOLDER (build/foretell-demo), and the results to docs/results.md. Needs build/bin and python3;
# for 60 prompts, ten minutes of one core. Existing files are kept, so it can be stopped.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/foretell-demo}
count=${2:-30}
bin=${KVLOUPE_BIN:-build/bin}
model=$PWD/assets/demo-model
mkdir -p "$folder"
[ -e "$folder/one.jsonl" ] || python3 scripts/claims/foretell_prompts.py "$folder" "$count" 48 --demo
. scripts/claims/foretell_measures.sh
for kind in one four; do
  "$bin/kvloupe-capture" run --model "$model" --prompt-set "$folder/$kind.jsonl" --generate 2 --dtype f32 --threads 1 \
    --block 64 --progress none -o "$folder/traces-$kind"
  cat > "$folder/study-$kind.json" <<JSON
{"traces": ["traces-$kind/*.h5"],
 "model": "$model", "prompts": ["$kind.jsonl"], "tasks": [{"task": "answer", "tokens": 2}],
 "dtype": "f32", "blocks": [64],
 "policies": ["sink(4)", "h2o+recent(50%)", "tova", "snapkv", "keydiff", "snapkv+adakv", "snapkv+critical", "tova+caote"],
 "budgets": ["10%", "25%", "50%"], "reduce": "all",
 "measures": [$(asked answer)$(asked later) "retained_mass", "output_error", "perturbation_l1", "bound_l1"]}
JSON
  "$bin/kvloupe" study run "$folder/study-$kind.json" -o "$folder/results-$kind.sqlite"
  "$bin/kvloupe-capture" study "$folder/study-$kind.json" -o "$folder/results-$kind.sqlite"
done
python3 scripts/claims/foretell_page.py "$folder" docs/results.md "$bin/kvloupe" --demo
