#!/usr/bin/env bash
# How policies fare while a real model writes: scripts/claims/writing.sh [FOLDER [FIRST]]
# Runs SmolLM2-135M-Instruct on long instructions with eight policies and random at two cadences, in one thread, and writes the
# table of docs/results-real.md. Needs build/bin, python3 and the model of scripts/real-model.sh (fetched once). Some five minutes of one core for each of
# the 40 prompts: finished runs are kept, so it can be stopped, and the table made from the prompts that are finished:
#   python3 scripts/claims/writing_page.py FOLDER docs/results-real.md assets/results/writing.json.gz
# With FIRST it begins with this prompt (from 0), to add to those of which assets/results/writing.json.gz has the texts.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
folder=${1:-build/writing}
first=${2:-0}
[[ $first =~ ^[0-9]+$ ]] || { echo "writing.sh: FIRST is the number of a prompt, not $first" >&2; exit 2; }
file=writing.jsonl
[ "$first" -eq 0 ] || file=writing-from$first.jsonl
scripts/real-model.sh --fetch
mkdir -p "$folder"
[ -e "$folder/$file" ] || python3 scripts/claims/writing_prompts.py "$folder" "$first"
policies=()
for score in random sink h2o "snapkv(16)" keydiff rkv raas valuerange longflow; do
  protected=$score+sinks\(4\)+recent\(25%\)
  [ "$score" = sink ] && protected=sink+recent\(25%\)
  policies+=("\"$protected\"" "\"$protected+every(64)\"")
done
cat > "$folder/writing.json" <<JSON
{"model": "$PWD/build/real-model/model.gguf", "prompts": ["$file"], "tasks": [{"task": "answer", "tokens": 256}],
 "dtype": "f32", "blocks": [128], "policies": [$(IFS=,; echo "${policies[*]}")], "budgets": [64], "reduce": "all"}
JSON
build/bin/kvloupe-capture study "$folder/writing.json" --threads 1 -o "$folder/writing.sqlite"
python3 scripts/claims/writing_page.py "$folder" docs/results-real.md assets/results/writing.json.gz
