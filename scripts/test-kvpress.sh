#!/usr/bin/env bash
# Compares kvloupe's policies with the presses of kvpress: scripts/test-kvpress.sh [PYTEST OPTIONS]
# With --prepare it only makes the environment.
# kvpress needs an older transformers than scripts/test-python.sh, so it has a virtual environment of its own under
# build/. Needs a build in build/ and the Python Package Index (some gigabytes, once).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
source scripts/python-venv.sh
make_venv build/kvpress transformers==5.2.0 kvpress==0.5.5
[ "${1:-}" != --prepare ] || exit 0
exec build/kvpress/bin/python -m pytest -q tests/python/test_kvpress.py "$@"
