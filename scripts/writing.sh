#!/usr/bin/env bash
# How policies fare while a real model writes: scripts/writing.sh [FOLDER]
# Runs SmolLM2-135M-Instruct on long instructions with eight policies and random at two cadences, in one thread, and writes the
# table of docs/results-real.md. Needs build/bin, python3 and the model of scripts/real-model.sh (fetched once). Some five minutes of one core for each of
# the 40 prompts: finished runs are kept, so it can be stopped, and the table made from the prompts that are finished:
#   python3 scripts/writing_page.py FOLDER docs/results-real.md
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/writing}
scripts/real-model.sh --fetch
mkdir -p "$folder"
[ -e "$folder/writing.jsonl" ] || python3 scripts/writing_prompts.py "$folder"
policies=()
for score in random sink h2o "snapkv(16)" keydiff rkv raas valuerange longflow; do
  protected=$score+sinks\(4\)+recent\(25%\)
  [ "$score" = sink ] && protected=sink+recent\(25%\)
  policies+=("\"$protected\"" "\"$protected+every(64)\"")
done
cat > "$folder/writing.json" <<JSON
{"model": "$PWD/build/real-model/model.gguf", "prompts": ["writing.jsonl"], "tasks": [{"task": "answer", "tokens": 192}],
 "dtype": "f32", "blocks": [128], "policies": [$(IFS=,; echo "${policies[*]}")], "budgets": [64], "reduce": "all"}
JSON
build/bin/kvloupe-capture study "$folder/writing.json" --threads 1 -o "$folder/writing.sqlite"
python3 scripts/writing_page.py "$folder" docs/results-real.md
