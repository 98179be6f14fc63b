#!/usr/bin/env bash
# Which number of a replay foretells a model's answers? scripts/claims/foretell.sh [--demo] [FOLDER [COUNT]]
# Writes COUNT (50) prompts of each of two kinds to FOLDER (build/foretell), captures them with the full cache, replays eight policies
# at three budgets, runs the same policies in the model, and writes to docs/results-real.md how well each measure of
# the replays foretells the answers. Needs build/bin, python3, the model of scripts/real-model.sh (fetched once), 6 GB
# of disk and, for 100 prompts, some three hours of one core. Existing files are kept, so it can be stopped.
# With --demo: the demo model and its language, one hidden number and four, 30 prompts of each, in build/foretell-demo, ten minutes
# of one core; the results go to docs/results.md.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/usage.sh
bin=${KVLOUPE_BIN:-build/bin}
demo=()
if [ "${1:-}" = --demo ]; then
  shift
  demo=(--demo) kinds=(one four) model=$PWD/assets/demo-model page=docs/results.md tokens=2 block=64
  budgets='"10%", "25%", "50%"' asked="answer later" folder=${1:-build/foretell-demo} count=${2:-30} sentences=48
else
  scripts/real-model.sh --fetch
  kinds=(needles things) model=$PWD/build/real-model/model.gguf page=docs/results-real.md tokens=6 block=128
  budgets='"25%", "50%", "75%"' asked="answer question later" folder=${1:-build/foretell} count=${2:-50} sentences=20
fi
mkdir -p "$folder"
[ -e "$folder/${kinds[1]}.jsonl" ] || python3 scripts/claims/foretell_prompts.py "$folder" "$count" "$sentences" "${demo[@]}"
measures=
for whose in $asked; do
  for name in residual_change worst_layer_error layer_error residual_part kept_attention output_error perturbation_l1 bound_l1 logit_change; do
    measures+="\"${whose}_$name\", "
  done
done
for kind in "${kinds[@]}"; do
  "$bin/kvloupe-capture" run --model "$model" --prompt-set "$folder/$kind.jsonl" --generate $tokens --dtype f32 --threads 1 \
    --block $block --progress none -o "$folder/traces-$kind"
  cat > "$folder/study-$kind.json" <<JSON
{"traces": ["traces-$kind/*.h5"],
 "model": "$model", "prompts": ["$kind.jsonl"], "tasks": [{"task": "answer", "tokens": $tokens}],
 "dtype": "f32", "blocks": [$block],
 "policies": ["sink(4)", "h2o+recent(50%)", "tova", "snapkv", "keydiff", "snapkv+adakv", "snapkv+critical", "tova+caote"],
 "budgets": [$budgets], "reduce": "all",
 "measures": [$measures"retained_mass", "output_error", "perturbation_l1", "bound_l1"]}
JSON
  "$bin/kvloupe" study run "$folder/study-$kind.json" -o "$folder/results-$kind.sqlite"
  "$bin/kvloupe-capture" study "$folder/study-$kind.json" -o "$folder/results-$kind.sqlite"
done
python3 scripts/claims/foretell_page.py "$folder" "$page" "$bin/kvloupe" "${demo[@]}"
