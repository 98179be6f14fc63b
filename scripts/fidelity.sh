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
scripts/real-model.sh --fetch
build/python/bin/python "$measure" closed "$parts/closed.json"
build/python/bin/python "$measure" tokenizers "$parts/tokenizers.json"
build/python/bin/python "$measure" promises "$parts/promises.json"
build/kvpress/bin/python "$measure" kvpress "$parts/kvpress.json"
build/kvpress/bin/python "$measure" readings "$parts/readings.json"
build/python/bin/python "$measure" write "$parts"/{models,families,closed,kvpress,readings,promises,tokenizers}.json docs/fidelity.md
