#!/usr/bin/env bash
# Which number of a replay foretells a real model's answers? scripts/claims/foretell.sh [FOLDER [COUNT]]
# Writes COUNT (50) prompts of each of two kinds to FOLDER (build/foretell), captures them with the full cache, replays eight policies
# at three budgets, runs the same policies in the model, and writes to docs/results-real.md how well each measure of
# the replays foretells the answers. Needs build/bin, python3, the model of scripts/real-model.sh (fetched once), 6 GB
# of disk and, for 100 prompts, some three hours of one core. Existing files are kept, so it can be stopped.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/foretell}
count=${2:-50}
scripts/real-model.sh --fetch
model=$PWD/build/real-model/model.gguf
mkdir -p "$folder"
[ -e "$folder/things.jsonl" ] || python3 scripts/claims/foretell_prompts.py "$folder" "$count"
. scripts/claims/foretell_measures.sh
for kind in needles things; do
  build/bin/kvloupe-capture run --model "$model" --prompt-set "$folder/$kind.jsonl" --generate 6 --dtype f32 \
    --threads 1 --progress none -o "$folder/traces-$kind"
  cat > "$folder/study-$kind.json" <<JSON
{"traces": ["traces-$kind/*.h5"],
 "model": "$model", "prompts": ["$kind.jsonl"], "tasks": [{"task": "answer", "tokens": 6}],
 "dtype": "f32", "blocks": [128],
 "policies": ["sink(4)", "h2o+recent(50%)", "tova", "snapkv", "keydiff", "snapkv+adakv", "snapkv+critical", "tova+caote"],
 "budgets": ["25%", "50%", "75%"], "reduce": "all",
 "measures": [$(asked answer)$(asked question)$(asked later) "retained_mass", "output_error", "perturbation_l1", "bound_l1"]}
JSON
  build/bin/kvloupe study "$folder/study-$kind.json" -o "$folder/results-$kind.sqlite"
  build/bin/kvloupe-capture study "$folder/study-$kind.json" -o "$folder/results-$kind.sqlite"
done
python3 scripts/claims/foretell_page.py "$folder" docs/results-real.md
