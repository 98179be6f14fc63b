#!/bin/sh
# Compares the order of policies in the demo model with a published one and writes docs/policy-order.md.
# Runs that are already in build/policy-order/ are not repeated: remove this folder after the demo model changes.
# KVLOUPE_CAPTURE and KVLOUPE name the programs to use instead of those in build/bin.
set -e
cd "$(dirname "$0")/../.."
. scripts/usage.sh
capture=${KVLOUPE_CAPTURE:-build/bin/kvloupe-capture}
kvloupe=${KVLOUPE:-build/bin/kvloupe}
model=assets/demo-model
out=build/policy-order
mkdir -p "$out"
# The presses of the comparison, each with its own defaults, compressed once after the context.
policies="AdaKVPress(ExpectedAttentionPress),KeyDiffPress,TOVAPress,ExpectedAttentionPress,\
ChunkKVPress(SnapKVPress),PyramidKVPress,SnapKVPress,StreamingLLMPress,qfilter,ObservedAttentionPress,\
KnormPress,random"
"$capture" eval --model $model --task needle --lengths 1024 --depths 10,30,50,70,90 --samples 8 \
  --policies "$policies" --budgets 50% --compression context-only --block 4096 --dtype f32 --threads 1 \
  -o "$out/needles.json"
for prompt in needle four-needles long; do
  [ -e "$out/$prompt.h5" ] || "$capture" run --model $model --prompt assets/prompts/$prompt.txt \
    --generate 8 --progress none -o "$out/$prompt.h5"
  "$kvloupe" sweep "$out/$prompt.h5" --policies "$policies" --budgets 50% --blocks all \
    --compression context-only -o "$out/$prompt.csv"
done
python3 scripts/claims/policy_order.py "$out" docs/policy-order.md
