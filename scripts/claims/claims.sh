#!/usr/bin/env bash
# The papers' claims on a real model: scripts/claims/claims.sh [COUNT [FOLDER]]
# Writes COUNT (20) prompts of each task to FOLDER (build/claims), captures the first TRACES (30) of the needles with the
# full cache, replays policies on these traces, runs policies in the model, and writes docs/claims.md from the results. The
# studies are those of assets/studies/claims. Needs build/bin, python3, and the model of scripts/real-model.sh (fetched once).
# 100 prompts take some eight hours of processor time. What is there is kept, so the same command goes on after a stop; another
# COUNT needs another FOLDER. THREADS (2): of each run.
# FIRST (0): begin with this prompt, to add prompts FIRST to COUNT - 1 to those of earlier runs, whose numbers are in assets/results/claims.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
count=${1:-20}
folder=${2:-build/claims}
threads=${THREADS:-2}
traces=${TRACES:-30}
first=${FIRST:-0}
part=
[[ $count =~ ^[1-9][0-9]*$ ]] || { echo "claims.sh: COUNT is a number of prompts, not $count" >&2; exit 2; }
[[ $traces =~ ^[1-9][0-9]*$ ]] || { echo "claims.sh: TRACES is a number of prompts, not $traces" >&2; exit 2; }
[[ $first =~ ^[0-9]+$ ]] && [ "$first" -lt "$count" ] || { echo "claims.sh: FIRST is a prompt below COUNT, not $first" >&2; exit 2; }
[ "$first" -eq 0 ] || part=-from$first
scripts/real-model.sh --fetch
mkdir -p "$folder/prompts"
ln -sfn "$PWD/build/real-model/model.gguf" "$folder/model.gguf"
prompts() { # TASK LENGTH [--blind]
  local file="$folder/prompts/$1${3:+-blind}-$2$part.jsonl"
  [ -e "$file" ] || python3 scripts/claims/claims_prompts.py "$folder/prompts" "$1" "$2" "$count" "$first" "${@:3}"
  [ "$(wc -l < "$file")" -eq $((count - first)) ] || {
    echo "claims.sh: $file has $(wc -l < "$file") prompts, not $((count - first)); give another FOLDER, or the same COUNT" >&2
    exit 1
  }
}
prompts needle 1000
running="needles questions several keyvalue variables chance sinks code firsts"
# Longer prompts take longer, so fewer of them; the manuals have 42 parts of 4 000 tokens and 28 of 6 000.
for length_most in "2000 60" "4000 42" "6000 28"; do
  read -r length most <<< "$length_most"
  if [ "$first" -lt "$most" ]; then
    count=$((count < most ? count : most)) prompts needle "$length"
    running+=" needles-$length"
  fi
done
prompts prose 500
prompts plain 500
prompts code 500
for task in questions needles keyvalue variables; do
  prompts "$task" 500
  prompts "$task" 500 --blind
done
for study in states once critical blocks single variants merging sets $running; do
  sed "s/-\([0-9]*\)\.jsonl/-\1$part.jsonl/g" "assets/studies/claims/$study.json" > "$folder/$study.json"
done
mkdir -p "$folder/replayed"
head -n "$traces" "$folder/prompts/needle-1000$part.jsonl" > "$folder/replayed/needle-1000$part.jsonl"
build/bin/kvloupe-capture run --model "$folder/model.gguf" --prompt-set "$folder/replayed/needle-1000$part.jsonl" --generate 6 \
  --dtype f32 --threads "$threads" --progress none -o "$folder/traces"
for study in states once critical blocks single variants merging sets; do
  build/bin/kvloupe study run "$folder/$study.json" -o "$folder/$study.sqlite"
done
python3 scripts/claims/claims_kept.py "$folder"
python3 scripts/claims/claims_places.py "$folder"
for study in $running; do
  build/bin/kvloupe-capture study "$folder/$study.json" -o "$folder/$study.sqlite" --threads "$threads"
done
build/bin/kvloupe export "$folder/needles.sqlite" --figure study-budget --set measure=answer_found --size 120x75mm \
  -o docs/images/claims-needles.svg
# Some rows a second time, without kvloupe's code; the page does without where h5py and NumPy are missing.
if [ -x build/python/bin/python ]; then build/python/bin/python scripts/claims/claims_check.py "$folder" 10; fi
python3 scripts/claims/claims_page.py "$folder" docs/claims.md assets/results/claims
