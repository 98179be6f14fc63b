#!/usr/bin/env bash
# Takes every picture of README.md and docs/tour.md again: of a real model, but for the lesson and the cause of a
# wrong answer, which take the demo model. Needs a build in build/, the network once (scripts/real-model.sh) and,
# without a display, Xvfb.
#
#   scripts/pictures.sh [FOLDER]     default: docs/images
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
out=${1:-docs/images}
bin=${KVLOUPE_BIN:-build/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

scripts/real-model.sh

show=()
if [ -z "${DISPLAY:-}" ]; then show=(xvfb-run -a); fi

# picture NAME TRACE WIDTHxHEIGHT 'FIELDS OF A SESSION'
picture() {
  printf '{"format": "kvloupe-session", "format_version": 1, "trace": "%s", %s}' "$PWD/build/real-model/$2.h5" "$4" > "$work/$1.json"
  "${show[@]}" "$bin"/kvloupe --session "$work/$1.json" --screenshot "$work/$1.png" --size "$3"
  # The window uses few colours, and a palette of few colours makes a small file.
  if command -v pngquant > /dev/null; then pngquant --force --output "$out/$1.png" "$work/$1.png"; else cp "$work/$1.png" "$out/$1.png"; fi
}

picture window needle 1280x800 '
  "selection": {"layer": 18, "head": 2}, "policy_a": "keydiff", "grid_metric": "attention to token 0", "budget": "25%", "tile_count": 2,
  "tiles": [{"view": "attention"}, {"view": "filmstrip"}]'
picture compare needle 1280x800 '
  "selection": {"layer": 18, "head": 2}, "policy_a": "keydiff", "policy_b": "h2o+recent(50%)", "policy_b_on": true, "budget": "25%",
  "grid_metric": "overlap A, B", "token_colour": "difference", "tile_count": 2,
  "tiles": [{"view": "filmstrip", "policy": "A"}, {"view": "filmstrip", "policy": "B"}]'
picture sinks document 1280x800 '
  "selection": {"layer": 16, "head": 1}, "grid_metric": "attention to token 0", "tile_count": 2,
  "tiles": [{"view": "attention"}, {"view": "overview", "choices": {"measure": "sinks"}}]'
picture lecture needle 1280x800 '
  "selection": {"layer": 20, "head": 1}, "policy_a": "h2o+kvmerger(auto)", "budget": "20%", "theme": "dark", "tile_count": 2,
  "tiles": [{"view": "filmstrip"}, {"view": "pca"}]'
# A wrong answer and its cause.
"$bin"/kvloupe-capture run --model assets/demo-model --prompt assets/prompts/needle.txt --block 64 \
  --generate 4 --progress none -o "$work/needle.h5"
"$bin"/kvloupe-capture rescue --model assets/demo-model --trace "$work/needle.h5" --policy snapkv \
  --budget 10% --block 64 --answer-tokens 1 --progress none -o "$work/rescue.json"
printf '{"format": "kvloupe-session", "format_version": 1, "trace": "%s", "selection": {"layer": 1, "head": 1},
  "policy_a": "snapkv", "budget": "10%%", "followed": "needle", "grid_metric": "followed tokens", "token_colour": "heads",
  "tile_count": 2, "active_tile": 1, "tiles": [{"view": "follow"}, {"view": "rescue"}]}' "$work/needle.h5" > "$work/cause.json"
"${show[@]}" "$bin"/kvloupe --session "$work/cause.json" "$work/rescue.json" --screenshot "$work/cause.png" --size 1280x800
if command -v pngquant > /dev/null; then pngquant --force --output "$out/cause.png" "$work/cause.png"; else cp "$work/cause.png" "$out/cause.png"; fi
# The window with a lesson; the lesson's trace is stored beside the other traces.
XDG_CACHE_HOME=$work "${show[@]}" "$bin"/kvloupe lesson 02-attention-sinks --screenshot "$work/lesson.png" --size 1280x800
if command -v pngquant > /dev/null; then pngquant --force --output "$out/lesson.png" "$work/lesson.png"; else cp "$work/lesson.png" "$out/lesson.png"; fi
ls -l "$out"
