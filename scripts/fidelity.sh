#!/usr/bin/env bash
# Measures kvloupe beside transformers, kvpress, tokenizers and SentencePiece, and writes docs/fidelity.md.
# Needs a build in build/. $KVLOUPE_CHECKPOINTS: folders with a tokenizer.model to check too, joined by colons.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
scripts/test-python.sh --collect-only > /dev/null  # makes the virtual environments
scripts/test-kvpress.sh --collect-only > /dev/null
export KVLOUPE=$PWD/build/bin/kvloupe KVLOUPE_CAPTURE=$PWD/build/bin/kvloupe-capture
parts=build/fidelity
mkdir -p "$parts"
measure=tests/python/fidelity.py
build/python/bin/python "$measure" models "$parts/models.json"
build/python/bin/python "$measure" families "$parts/families.json"
for model in smollm2 gemma3 qwen2.5; do scripts/real-model.sh "$model" --fetch || true; done # those that can be had
build/python/bin/python "$measure" real "$parts/real.json"
build/python/bin/python "$measure" closed "$parts/closed.json"
build/python/bin/python "$measure" tokenizers "$parts/tokenizers.json"
build/python/bin/python "$measure" promises "$parts/promises.json"
build/kvpress/bin/python "$measure" kvpress "$parts/kvpress.json"
build/kvpress/bin/python "$measure" readings "$parts/readings.json"
build/python/bin/python "$measure" write "$parts"/{models,real,families,closed,kvpress,readings,promises,tokenizers}.json docs/fidelity.md
