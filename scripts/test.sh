#!/usr/bin/env bash
# Installs missing packages, builds, runs every test. scripts/test.sh [CTEST OPTIONS], e.g. -L fast.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
scripts/setup.sh
preset=release
[ "${CI:-}" = true ] && preset=ci  # warnings are errors there
scripts/build.sh "$preset"
exec ctest --test-dir build --output-on-failure --parallel "$(nproc)" "$@"
