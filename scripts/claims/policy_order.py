#!/usr/bin/env python3
"""Writes docs/policy-order.md from the results of scripts/claims/policy-order.sh: policy_order.py FOLDER TARGET."""
import csv
import json
import statistics

from pages import script, signed, spearman, table, wilson, write

# RULER at 4096 tokens, Llama-3.1-8B, half of the cache: read off the plots that kvpress showed in 2025.
PUBLISHED = {"AdaKVPress(ExpectedAttentionPress)": 91.5, "KeyDiffPress": 85, "TOVAPress": 75.5,
             "ExpectedAttentionPress": 74.7, "ChunkKVPress(SnapKVPress)": 73, "PyramidKVPress": 67.5,
             "SnapKVPress": 67, "StreamingLLMPress": 60, "qfilter": 60, "ObservedAttentionPress": 50.8,
             "KnormPress": 50, "random": 7.6}
PROMPTS = ("needle", "four-needles", "long")


@script(__doc__)
def main(folder, target):
    runs = json.loads((folder / "needles.json").read_text(encoding="utf-8"))["runs"]
    specs = list(dict.fromkeys(run["policy"] for run in runs if run["budget"] != "full"))
    assert len(specs) == len(PUBLISHED), specs
    full = [run["correct"] for run in runs if run["budget"] == "full"]
    found = [[run["correct"] for run in runs if run["policy"] == spec] for spec in specs]
    swept = []
    for prompt in PROMPTS:
        with open(folder / f"{prompt}.csv", encoding="utf-8", newline="") as file:
            swept.append(list(csv.DictReader(file)))
    lost = [statistics.fmean(100 * (1 - statistics.fmean(float(row["retained_mass"]) for row in rows if row["policy"] == spec))
                             for rows in swept) for spec in specs]
    rows = [[f"`{press}`", f"{score:g}", wilson(sum(own), len(own), ""), f"{mass:.1f}"]
            for (press, score), own, mass in zip(PUBLISHED.items(), found, lost)]
    published = list(PUBLISHED.values())
    shares = [sum(own) / len(own) for own in found]
    write(target, f"""# The order of the policies, beside a published one

`scripts/claims/policy-order.sh` wrote this page. Each policy is the press of that name with its own defaults
([policies.md](policies.md#as-kvpress-does-it)): it compresses once, after the context, and has not seen the question.
`qfilter` takes its filter from the prompt itself. Half of the context is kept.

- Published: mean score of the tasks of RULER at 4 096 tokens, Llama-3.1-8B, read off plots that kvpress showed in 2025.
- Found: one needle in 1 024 tokens by the demo model with the policy in its cache, in percent of {len(full)} prompts, with 95 %
  intervals. The full cache finds {wilson(sum(full), len(full), "")}.
- Lost: attention that the queries after the cut would pay to evicted entries, in percent (replay): mean over
  the heads, then over the {len(PROMPTS)} shipped prompts.

{table(["policy", "published", "found", "lost"], rows)}

Rank correlation with the published order: {signed(spearman(published, shares))} for the needles found, {signed(spearman(published, [-mass for mass in lost]))} for the attention kept
(+1: the same order; {len(PUBLISHED)} policies).

Why the columns differ was not tested. An answer here is one token, and one head that kept it can be enough (`random`); the tasks
of RULER have answers of several tokens, often from several places.

Attention lost and needles found do not order the policies alike either: most attention does not go to the needle.
""")
