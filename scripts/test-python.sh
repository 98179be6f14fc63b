#!/usr/bin/env bash
# Tests the Python package in a virtual environment under build/: scripts/test-python.sh [PYTEST OPTIONS]
# Needs a build in build/ and the Python Package Index (torch and transformers: some gigabytes, once).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=build/python
pins=(numpy==2.4.6 h5py==3.16.0 pytest==9.2.0 torch==2.15.0 transformers==5.23.0 tokenizers==0.23.3
  sentencepiece==0.2.3 pandas==3.1.1 nbformat==5.11.1 nbclient==0.11.0 ipykernel==7.4.0)
if [ "$(cat "$folder/installed" 2> /dev/null)" != "${pins[*]}" ]; then
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet "${pins[@]}" ||
    { echo "test-python: the packages cannot be had from the Python Package Index; check the network" >&2; exit 1; }
  "$folder/bin/pip" install --quiet --no-deps --editable capture/python
  echo "${pins[*]}" > "$folder/installed"
fi
export KVLOUPE=$PWD/build/bin/kvloupe KVLOUPE_CAPTURE=$PWD/build/bin/kvloupe-capture
exec "$folder/bin/python" -m pytest -q capture/python/tests "$@"
