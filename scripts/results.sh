#!/bin/sh
# Measures the demo model with policies in its cache and writes docs/results.md from the outcome.
# What is there already in build/results/ is not run again: remove it after a new demo model.
set -e
cd "$(dirname "$0")/.."
model=assets/demo-model
out=build/results
policies="sink,h2o,tova,snapkv,keydiff,snapkv+caote,snapkv+critical,h2o+kvmerger(auto)"
budgets="5%,15%,40%"
mkdir -p "$out"
run() {
  name=$1
  shift
  build/bin/kvloupe-capture eval --model $model --policies "$policies" --budgets "$budgets" \
    "$@" -o "$out/$name.json"
}
run needle --task needle --lengths 512,1024,2048 --samples 3
run needle-context-only --task needle --lengths 1024 --samples 3 --compression context-only
run four-needles --task needle --needles 4 --lengths 1024 --samples 3
run perplexity --task perplexity --lengths 1024,2048 --samples 2
python3 scripts/results.py "$out" docs/results.md
