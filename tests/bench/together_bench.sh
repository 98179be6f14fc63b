#!/usr/bin/env bash
# Runs of one prompt that write their answers together, beside one run alone: 6 policies × 3 budgets, SmolLM2-135M,
# one thread. tests/bench/together_bench.sh [BUILD FOLDER [TOKENS]]: processor seconds for each written token of a
# run (128 tokens), and the share that writing together takes of writing one after another. Prompts are read in both, so
# the same studies with one token are taken off; each also writes the full cache's answer, as one run more.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(cd "${1:-build}/bin" && pwd)
tokens=${2:-128}
scripts/real-model.sh --fetch
model=$PWD/build/real-model/model.gguf
text=$(grep -v '^@@' assets/prompts/real/document.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
TEXT=$text python3 -c 'import json, os
text = os.environ["TEXT"]
print(json.dumps({"context": text[:4000], "input": text[4000:4600], "answers": ["1"]}))' >set.jsonl
seconds() { # POLICIES BUDGETS TOKENS: of the processor
  echo "{\"model\": \"$model\", \"dtype\": \"f32\", \"blocks\": [128], \"policies\": [$1], \"budgets\": [$2]," \
    "\"tasks\": [{\"task\": \"answer\", \"prompts\": [\"set.jsonl\"], \"tokens\": $3}]}" >study.json
  rm -f study.sqlite
  TIMEFORMAT='%U %S'
  { time "$bin/kvloupe-capture" study study.json --threads 1 -o study.sqlite >/dev/null 2>&1; } 2>&1 |
    awk '{print $1 + $2}'
}
policies='"keydiff", "snapkv", "h2o", "tova", "sink", "h2o+kvmerger"'
budgets='"20%", "40%", "60%"'
python3 - "$tokens" "$(seconds '"h2o"' '"40%"' "$tokens")" "$(seconds '"h2o"' '"40%"' 1)" \
  "$(seconds "$policies" "$budgets" "$tokens")" "$(seconds "$policies" "$budgets" 1)" <<'PYTHON'
import sys
tokens, *times = (float(word) for word in sys.argv[1:])
alone = (times[0] - times[1]) / 2 / (tokens - 1)
together = ((times[2] - times[3]) / (tokens - 1) - alone) / 18
print(f"alone {alone * 1e3:.1f} ms, together {together * 1e3:.1f} ms a token, {together / alone:.2f} of it")
PYTHON
