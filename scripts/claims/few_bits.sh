#!/usr/bin/env bash
# Evict, or hold everything in few bits? scripts/claims/few_bits.sh [COUNT [FOLDER]]
# Runs COUNT (16) prompts in the model with fewer entries, with fewer bits, and with both, counts the bytes in replays of the
# first four, and writes the section "Fewer entries or fewer bits" of docs/results-real.md. Needs build/bin, python3, and the
# model of scripts/real-model.sh (fetched once). What is there is kept, so the same command goes on after a stop; another COUNT
# needs another FOLDER (build/few-bits).
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
count=${1:-16}
folder=${2:-build/few-bits}
[[ $count =~ ^[1-9][0-9]*$ ]] || { echo "few_bits.sh: COUNT is a number of prompts, not $count" >&2; exit 2; }
scripts/real-model.sh --fetch
mkdir -p "$folder"
ln -sfn "$PWD/build/real-model/model.gguf" "$folder/model.gguf"
[ -e "$folder/needle-500.jsonl" ] || python3 scripts/claims/claims_prompts.py "$folder" needle 500 "$count"
[ "$(wc -l < "$folder/needle-500.jsonl")" -eq "$count" ] || {
  echo "few_bits.sh: $folder holds other than $count prompts; give another FOLDER, or the same COUNT" >&2
  exit 1
}
few() { echo "quant($1,group=32,residual=32)"; }
study() { # NAME BUDGETS POLICY...
  local name=$1 budgets=$2
  shift 2
  cat > "$folder/$name.json" <<JSON
{"model": "model.gguf", "dtype": "f32", "blocks": [128], "reduce": "all", "budgets": [$budgets],
 "tasks": [{"task": "answer", "tokens": 6, "prompts": ["needle-500.jsonl"]}], "policies": [$(printf '"%s",' "$@" | sed 's/,$//')]}
JSON
  build/bin/kvloupe-capture study "$folder/$name.json" --threads 1 --progress none -o "$folder/$name.sqlite"
}
study bits '"100%"' "full+$(few 8)" "full+$(few 4)" "full+$(few 2)"
study entries '"25%","75%"' keydiff "keydiff+$(few 4)" snapkv "snapkv+$(few 4)"
head -n 4 "$folder/needle-500.jsonl" > "$folder/counted.jsonl"
build/bin/kvloupe-capture run --model "$folder/model.gguf" --prompt-set "$folder/counted.jsonl" --generate 6 --attention none \
  --dtype f32 --threads 1 --progress none -o "$folder/traces"
python3 scripts/claims/few_bits.py "$folder" docs/results-real.md
