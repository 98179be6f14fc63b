#!/usr/bin/env bash
# Builds the trainer of the demo model and runs its tests: scripts/test-train.sh [CTEST OPTIONS]
# The product does not need it, so scripts/test.sh leaves it out: run this where the trainer, or what it is made
# of, was changed, and every night.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
scripts/setup.sh
scripts/build.sh trainer test_train kvloupe-train
exec ctest --test-dir build-train --output-on-failure --parallel "$(nproc)" -L trainer "$@"
