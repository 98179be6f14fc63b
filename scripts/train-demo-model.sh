#!/usr/bin/env bash
# Trains the demo model from random weights: scripts/train-demo-model.sh [FOLDER [OPTION ...]]
# FOLDER (default: demo-model-training) gets the model, log.csv and checkpoint.pt; run the script again to continue
# from the last checkpoint. Options go to `python -m trainer train`, e.g. --device cuda. Corpus, trainer and seed are in
# this repository; PyTorch comes from the Python Package Index, and the measurement needs a build in build/.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
folder=${1:-demo-model-training}
shift || true

scripts/test-python.sh --prepare
export KVLOUPE=$PWD/build/bin/kvloupe KVLOUPE_CAPTURE=$PWD/build/bin/kvloupe-capture
# Every step allocates and frees large tensors: keep their memory instead of returning it each time.
export MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184
build/python/bin/python -m trainer train --recipe assets/demo-model/recipe.json --output "$folder" --measure-every 100 "$@"
build/python/bin/python -m trainer measure --model "$folder"
