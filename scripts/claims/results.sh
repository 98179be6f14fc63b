#!/bin/sh
# Measures the demo model with policies in its cache and writes docs/results.md from the results.
# Runs that are already in build/results/ are not repeated: remove this folder after the demo model changes.
# KVLOUPE_CAPTURE and KVLOUPE name the programs to use instead of those in build/bin.
set -e
cd "$(dirname "$0")/../.."
. scripts/usage.sh
capture=${KVLOUPE_CAPTURE:-build/bin/kvloupe-capture}
kvloupe=${KVLOUPE:-build/bin/kvloupe}
model=assets/demo-model
out=build/results
policies="sink,h2o,tova,snapkv,keydiff,snapkv+caote,snapkv+critical,h2o+kvmerger(auto)"
budgets="10%,25%,50%"
mkdir -p "$out"
run() {
  name=$1
  shift
  echo "$name"
  "$capture" eval --model $model --policies "$policies" --budgets "$budgets" --dtype f32 \
    --threads 1 "$@" -o "$out/$name.json"
}
run needle --task needle --lengths 512,1024 --depths 10,30,50,70,90 --samples 10
run needle-context-only --task needle --lengths 512 --depths 10,30,50,70,90 --samples 20 \
  --compression context-only
run four-needles --task needle --needles 4 --lengths 512 --depths 10,30,50,70,90 --samples 20
run perplexity --task perplexity --lengths 1024 --samples 40
# The two stages of CriticalKV with the base policies and the budget of its paper, and budgets around it.
policies="snapkv,snapkv+critical,snapkv(pool=max),snapkv(pool=max)+critical,snapkv+adakv,snapkv+adakv+critical"
budgets="10%,20%,40%"
run critical --task perplexity --lengths 1024 --samples 8
# Which heads' loss makes an answer wrong: prompts that a policy fails and the full cache does not.
policies="snapkv"
budgets="15%"
run rescue-needle --task needle --lengths 512 --depths 10,30,50,70,90 --samples 20 --block 64
mkdir -p "$out/rescue"
for row in $(python3 scripts/claims/missed_rows.py "$out/rescue-needle.json" 60); do
  echo "rescue $row"
  "$capture" rescue --model $model --results "$out/rescue-needle.json" --row "$row" --threads 1 \
    --progress none -o "$out/rescue/$row.json"
done
cat > "$out/rescue.txt" <<'TEXT'
Prompts of 512 tokens with one needle that the full cache answers and the policy does not, with 15% of the entries.

    kvloupe-capture eval --model assets/demo-model --task needle --policies snapkv --budgets 15% \
        --lengths 512 --depths 10,30,50,70,90 --samples 20 --block 64 -o needle.json
    kvloupe-capture rescue --model assets/demo-model --results needle.json --row N -o N.json
TEXT
python3 scripts/claims/results.py "$out" docs/results.md
python3 scripts/claims/blame.py "$out" docs/results.md
"$kvloupe" export "$out/needle.json" --figure needle-grid --budget 25% -o docs/images/needles.svg
"$kvloupe" export "$out/perplexity.json" --figure perplexity-budget --y -0.5:5.5 --size 120x80mm \
  -o docs/images/perplexity.svg
"$kvloupe" export "$out/perplexity.json" --figure layer-drift --budget 25% --y 0:0.25 \
  --size 120x80mm -o docs/images/layer-drift.svg
