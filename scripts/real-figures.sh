#!/usr/bin/env bash
# Makes the figures of docs/real-model.md again: scripts/real-figures.sh [FOLDER], default docs/images/real.
# Needs a build in build/ and, the first time, the network (scripts/real-model.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/usage.sh
out=${1:-docs/images/real}
kvloupe=${KVLOUPE_BIN:-build/bin}/kvloupe
traces=build/real-model
scripts/real-model.sh
mkdir -p "$out"

# figure NAME TRACE SIZE OPTIONS ...
figure() {
  local name=$1 trace=$2 size=$3
  shift 3
  "$kvloupe" export "$traces/$trace.h5" --size "$size" -o "$out/$name.png" "$@"
  if command -v pngquant > /dev/null; then pngquant --force --output "$out/$name.png" "$out/$name.png"; fi
}

figure 01-sinks document 85x120mm --figure overview --set measure=sinks
figure 02-attention-early document 85x75mm --figure attention --layer 5 --head 1
figure 03-attention-late document 85x75mm --figure attention --layer 18 --head 2
figure 04-similarity document 178x75mm --figure similarity --layer 18 --head 2 --set beside=attention
figure 05-keydiff needle 178x60mm --figure filmstrip --policy keydiff --layer 18 --head 2
figure 06-h2o needle 178x60mm --figure filmstrip --policy "h2o+recent(50%)" --layer 18 --head 2
figure 07-text needle 178x70mm --figure tokens --policy keydiff --layer 18 --head 2 --tokens 250-420
figure 08-readers needle 178x120mm --figure follow --policy keydiff --set tokens=needle
figure 09-survival needle 178x120mm --figure survival --policy keydiff --tokens 329-345
figure 10-tightness document 85x120mm --figure overview --set measure=tightness_l1 --policy keydiff
figure 11-agreement document 130x100mm --figure agreement --policies "sink,h2o+recent(50%),tova,snapkv,keydiff,keynorm" --layer 18 --head 2
figure 12-geometry document 178x65mm --figure pca-panel --layer 24 --head 0 --policies "keydiff,h2o+recent(50%),snapkv"
