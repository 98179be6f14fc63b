#!/usr/bin/env bash
# Trains the demo model from nothing by its two recipes: scripts/train-demo-model.sh [FOLDER [OPTION ...]]
# First without the cost that grows attention sinks, in FOLDER/without-rest, then with it. FOLDER
# (default: demo-model-training) gets the model, log.csv and checkpoint.pt; run it again to go on from
# the last checkpoint. Options go to `kvloupe-train train`, e.g. --device cuda.
# The corpus, the trainer and the seed are the project's own: nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-demo-model-training}
shift || true

scripts/build.sh release kvloupe-train
program=build/bin/kvloupe-train
# Large tensors come and go at every step: keep their memory instead of giving it back each time.
export MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184
"$program" train --recipe assets/demo-model/recipe.json --output "$folder/without-rest" "$@"
"$program" train --recipe assets/demo-model/recipe-rest.json --start "$folder/without-rest" \
  --output "$folder" "$@"
"$program" measure --model "$folder"
