#!/usr/bin/env bash
# From a fresh checkout to the open window: installs missing packages, builds, captures the demo
# model on the demo prompt into demo.h5 and opens it. Without a display, or with --headless, writes
# the figure gallery and a screenshot to out/ instead. A second run takes only seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh

headless=false
for option in "$@"; do
  case $option in
    --headless) headless=true ;;
    -h | --help)
      sed -n '2,4s/^# //p' "$0"
      exit 0
      ;;
    *)
      echo "demo: unknown option $option; the only option is --headless" >&2
      exit 2
      ;;
  esac
done
[ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || headless=true

scripts/setup.sh
scripts/build.sh release kvloupe kvloupe-capture

model=assets/demo-model
prompt=assets/prompts/needle.txt
# Capture again only if the model, the prompt or the program is newer than the trace.
if [ ! demo.h5 -nt "$model/model.safetensors" ] || [ ! demo.h5 -nt "$prompt" ] ||
  [ ! demo.h5 -nt build/bin/kvloupe-capture ]; then
  build/bin/kvloupe-capture run --model "$model" --prompt "$prompt" --generate 16 --block 64 -o demo.h5
fi

if [ "$headless" = false ]; then
  exec build/bin/kvloupe demo.h5
fi
mkdir -p out
build/bin/kvloupe gallery demo.h5 -o out/gallery
xvfb-run -a -s "-screen 0 1600x1000x24" \
  build/bin/kvloupe demo.h5 --screenshot out/window.png --size 1600x1000
echo "demo: figures in $PWD/out/gallery, the window in $PWD/out/window.png"
