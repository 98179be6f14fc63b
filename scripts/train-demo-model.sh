#!/usr/bin/env bash
# Trains the demo model from random weights: scripts/train-demo-model.sh [FOLDER [OPTION ...]]
# FOLDER (default: demo-model-training) gets the model, log.csv and checkpoint.pt; run the script again to continue
# from the last checkpoint. Options go to `kvloupe-train train`, e.g. --device cuda.
# Nothing is downloaded: corpus, trainer and seed are in this repository.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
folder=${1:-demo-model-training}
shift || true

scripts/build.sh trainer kvloupe-train
program=build-train/bin/kvloupe-train
# Every step allocates and frees large tensors: keep their memory instead of returning it each time.
export MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184
"$program" train --recipe assets/demo-model/recipe.json --output "$folder" --measure-every 100 "$@"
"$program" measure --model "$folder"
