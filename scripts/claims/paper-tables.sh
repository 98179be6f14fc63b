#!/bin/sh
# Runs the studies of assets/studies in the demo model and writes docs/paper-tables.md from their results.
# A study that was stopped goes on: remove build/paper-tables/ after the demo model changes. KVLOUPE_CAPTURE
# and KVLOUPE name the programs to use instead of those in build/bin.
set -e
cd "$(dirname "$0")/../.."
. scripts/usage.sh
capture=${KVLOUPE_CAPTURE:-build/bin/kvloupe-capture}
kvloupe=${KVLOUPE:-build/bin/kvloupe}
out=build/paper-tables
page=docs/paper-tables.md
mkdir -p "$out"
for study in keydiff-8 keydiff-11 caote-5 criticalkv-1 criticalkv-1-context-only kvmerger-3; do
  echo "$study"
  "$capture" study assets/studies/$study.json --threads 1 -o "$out/$study.sqlite"
done
table() { # NAME RESULTS...
  name=$1
  shift
  files=
  for study in "$@"; do
    files="$files $out/$study.sqlite"
  done
  echo
  # The lines below the tables are alike: the page says them once, above.
  "$kvloupe" study table "$name" $files | sed -e '/^Means over prompts/,/^$/d' -e 's/Needles found, \([0-9]* tokens\)/Needles, \1/g' \
    -e 's/Answers found, needles-00512/One of four/' -e 's/Same top-1 token, \([a-z]*\)-00512/Top-1, \1/g'
  echo "    kvloupe study table $name$(echo "$files" | sed "s|$out/||g") -o $name.tex"
}
{
  cat <<'END'
# Tables in the layouts of papers

`scripts/claims/paper-tables.sh` wrote this page. Each table has the rows and columns of a published one, filled by a study
([study-results.md](study-results.md#tables-in-the-layouts-of-papers)) of the demo model. The papers measure large models on
LongBench, which the demo model cannot read. Its tasks are needles in 256 or 512 tokens (`needle_found`), one of four needles
that is asked for (`answer_found`), and texts of 512 tokens of five kinds: the share of tokens with the full cache's most
probable next token (*top-1*, `perplexity_same_top1`). All six studies together are 3 260 runs. These tables say nothing about
the policies in large models.

Means over prompts, shares in percent (those of CAOTE's table as they are), with 95 % intervals in brackets: six prompts of
needles of each length (ten in CAOTE's table), eight of four needles, four of each text. Blocks of 128; KVMerger's table: a
budget of 50 %. Bold: the best policy at the same budget, or of a group. Each number comes from few prompts: read the intervals.

The studies are in [assets/studies](../assets/studies):

    kvloupe-capture study assets/studies/NAME.json -o NAME.sqlite
END
  table keydiff-8 keydiff-8
  table keydiff-11 keydiff-11
  table caote-5 caote-5
  table criticalkv-1 criticalkv-1 criticalkv-1-context-only
  table kvmerger-3 kvmerger-3
} >"$page.new"
mv "$page.new" "$page"
