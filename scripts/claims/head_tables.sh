#!/usr/bin/env bash
# A table of entries by head, learnt on one half of the prompts and proved on the other: scripts/claims/head_tables.sh [FOLDER]
# Writes the section "A table of entries by head" of docs/results-real.md. Needs build/bin, python3, and the model of
# scripts/real-model.sh (fetched once). What is there is kept, so the same command goes on after a stop.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/head-tables}
program=$PWD/build/bin
scripts/real-model.sh --fetch
mkdir -p "$folder"
ln -sfn "$PWD/build/real-model/model.gguf" "$folder/model.gguf"
[ -e "$folder/needle-500.jsonl" ] || python3 scripts/claims/claims_prompts.py "$folder" needle 500 100
tail -n 50 "$folder/needle-500.jsonl" > "$folder/held.jsonl"
"$program/kvloupe-capture" run --model "$folder/model.gguf" --prompt-set "$folder/needle-500.jsonl" --generate 4 \
  --attention none --dtype f32 --progress none -o "$folder/traces"
traces=$(cd "$folder" && printf '"%s",' traces/*-000[0-4]?.h5)
held=$(cd "$folder" && printf '"%s",' traces/*-000[5-9]?.h5)
cat > "$folder/learn.json" <<JSON
{"traces": [${traces%,}], "blocks": [128], "reduce": "steps",
 "policies": ["snapkv", "h2o+recent(50%)", "snapkv+pyramid", "snapkv+adakv", "snapkv+cake", "snapkv+lava", "snapkv+zigzag"],
 "budgets": ["5%", "10%", "20%", "35%", "50%", "75%"],
 "measures": ["answer_residual_part", "answer_residual_change", "retained"]}
JSON
"$program/kvloupe" study run "$folder/learn.json" -o "$folder/learn.sqlite"
for share in 35 20; do
  [ -e "$folder/table-$share.csv" ] ||
    "$program/kvloupe" advise "$folder/learn.sqlite" --heads "$folder/table-$share.csv" --budget "$share%" \
      --json "$folder/advice-$share.json"
  cat > "$folder/prove-$share.json" <<JSON
{"model": "model.gguf", "dtype": "f32", "blocks": [128], "reduce": "all",
 "tasks": [{"task": "answer", "tokens": 6, "prompts": ["held.jsonl"]}],
 "policies": ["snapkv", "snapkv+pyramid", "snapkv+adakv", "snapkv+headbudgets(\"table-$share.csv\")"],
 "budgets": ["$share%"]}
JSON
  "$program/kvloupe-capture" study "$folder/prove-$share.json" -o "$folder/prove-$share.sqlite"
done
cat > "$folder/held.json" <<JSON
{"traces": [${held%,}], "blocks": [128], "reduce": "steps",
 "policies": ["snapkv", "snapkv+headbudgets(\"table-20.csv\")", "snapkv+headbudgets(\"table-35.csv\")"],
 "budgets": ["20%", "35%"],
 "measures": ["answer_residual_part", "answer_residual_change"]}
JSON
"$program/kvloupe" study run "$folder/held.json" -o "$folder/held.sqlite"
python3 scripts/claims/head_tables.py "$folder" docs/results-real.md
