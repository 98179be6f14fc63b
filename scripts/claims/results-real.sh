#!/usr/bin/env bash
# Does blame hold up in a real model? scripts/claims/results-real.sh [FOLDER [COUNT [POLICY [BUDGET [RUNS]]]]], after
# scripts/claims/foretell.sh with the same FOLDER (build/foretell).
# Takes COUNT (31) of its prompts with needles that the model answers with the full cache and not with the policy (tova,
# 25%), runs kvloupe-capture rescue on each with at most RUNS (40) runs of the model, and writes docs/results-real.md.
# For 30 prompts it takes an hour of one core. Existing files are kept, so it can be stopped.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/foretell}
count=${2:-31}
policy=${3:-tova}
budget=${4:-25%}
runs=${5:-40}
bin=${KVLOUPE_BIN:-build/bin}
model=$PWD/build/real-model/model.gguf
mkdir -p "$folder/rescue"
python3 scripts/claims/missed_prompts.py "$folder" needles "$policy" "$budget" "$count"
"$bin/kvloupe-capture" run --model "$model" --prompt-set "$folder/missed.jsonl" --generate 6 --dtype f32 --threads 1 \
  --attention none --progress none -o "$folder/missed"
number=0
while read -r answer; do
  name=$(printf 'missed-%05d' "$number")
  # A prompt after which the model says something before the number has nothing to rescue: said, and left out of
  # the page, as is one that was stopped; run this script again to go on.
  "$bin/kvloupe-capture" rescue --model "$model" --trace "$folder/missed/$name.h5" --policy "$policy" --budget "$budget" \
    --expect " $answer" --runs "$runs" --dtype f32 --threads 1 --progress none -o "$folder/rescue/$name.json" </dev/null || true
  number=$((number + 1))
done <"$folder/missed.txt"
cat >"$folder/rescue.txt" <<TEXT
Prompts of some 600 tokens of an essay with three needles, of which one is asked for; SmolLM2-135M-Instruct answers them with the
full cache, and with the policy and $budget of the entries it does not.

    scripts/claims/foretell.sh
    scripts/claims/results-real.sh
TEXT
python3 scripts/claims/blame.py "$folder" docs/results-real.md
