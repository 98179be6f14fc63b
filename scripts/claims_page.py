#!/usr/bin/env python3
"""Writes docs/claims.md from the results of scripts/claims.sh.

    scripts/claims_page.py FOLDER TARGET

Each row of ROWS (claims_rows.py) is one number per prompt, computed from FOLDER/STUDY.sqlite, and the side of a threshold
on which the claim puts its mean. Interval and verdict: see the page.
"""
import json
import math
import statistics
import sys
from pathlib import Path

from blame import table
from claims_rows import ROWS
from claims_study import Study


def t_quantile(freedom):
    """The 97.5 % quantile of Student's t, from its density by Simpson's rule and bisection."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    density = lambda x: scale * (1 + x * x / freedom) ** (-(freedom + 1) / 2)

    def inside(x, steps=4000):
        h = x / steps
        return h / 3 * sum((1 if k in (0, steps) else 4 if k % 2 else 2) * density(k * h) for k in range(steps + 1))
    low, high = 0.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < 0.475 else (low, middle)
    return low


def verdict(numbers, side, threshold):
    """(mean, half of the interval, verdict); half is None where all numbers are equal or there is one."""
    middle = statistics.fmean(numbers)
    if len(numbers) < 3 or len(set(numbers)) == 1:
        return middle, None, "cannot be told"
    half = t_quantile(len(numbers) - 1) * statistics.stdev(numbers) / math.sqrt(len(numbers))
    if middle - half <= threshold <= middle + half:
        return middle, half, "cannot be told"
    return middle, half, "holds" if (middle > threshold) == (side == ">") else "does not hold here"


def checked(folder, studies):
    """The table of what scripts/claims_check.py computed a second time; empty without its file."""
    path = folder / "check.json"
    if not path.is_file():
        return ""
    again, rows = json.loads(path.read_text(encoding="utf-8"))["rows"], []
    for _, claim, _, _, name, compute, _, _ in ROWS:
        if claim not in again:
            continue
        ours, theirs = compute(studies[name]), again[claim]
        if len(ours) != len(theirs):
            sys.exit(f"claims_page.py: {path} has {len(theirs)} numbers for: {claim}; the study has {len(ours)}. "
                     "Run scripts/claims_check.py again")
        # Prompts stand in another order there.
        apart = max(abs(one - other) for one, other in zip(sorted(ours), sorted(theirs)))
        rows.append([claim, f"{statistics.fmean(ours):.6g}", f"{statistics.fmean(theirs):.6g}", f"{apart:.1g}", str(len(theirs))])
    return f"""## Computed a second time

`scripts/claims_check.py` computed these rows with NumPy in float64 from the traces alone. It shares no code with kvloupe.

{table(["claim", "kvloupe", "NumPy", "largest difference of a prompt", "prompts"], rows)}

"""


def main():
    if len(sys.argv) != 3:
        sys.exit("claims_page.py: takes FOLDER TARGET")
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    studies, rows = {}, []
    for paper, claim, place, theirs, name, compute, side, threshold in ROWS:
        if name not in studies:
            studies[name] = Study(folder / f"{name}.sqlite")
        numbers = compute(studies[name])
        if not numbers:
            sys.exit(f"claims_page.py: {folder}/{name}.sqlite has no values for: {claim}")
        middle, half, says = verdict(numbers, side, threshold)
        ours = f"{middle:.3g}" + ("" if half is None else f" [{middle - half:.3g}, {middle + half:.3g}]")
        rows.append([paper, claim, place, theirs, ours, str(len(numbers)), f"{side} {threshold:g}", says, f"`{name}`"])
    text = f"""# The papers' claims on a real model

`scripts/claims.sh` wrote this page. SmolLM2-135M-Instruct, blocks of 128 tokens. Studies: `states` replays policies on
traces of the full cache (needles in some 1 000 tokens of manuals); `needles` runs policies in the model on the same
prompts; `once` replays CriticalKV as its paper has it, with one eviction after the context, and measures ℒ of the tokens after
it; `sinks` measures the loss of 500 tokens of manuals with policies in the model. `scripts/claims_prompts.py` says where
the texts come from.

*Ours* is the mean over prompts with its 95 % interval (Student's t over prompts; differences are paired). *Verdict*: the
claim puts the mean on one side of a threshold (*holds if*). The claim **holds** if the whole interval is on that side, and **does not
hold here** if the whole interval is on the other side. If the threshold lies in the interval, or all prompts have the same
number, it **cannot be told**. Each row is judged by itself, so of a hundred rows without effect some five would have a verdict.
The sign tells nothing about its importance: read the numbers.

{table(["paper", "claim", "place", "theirs", "ours", "prompts", "holds if", "verdict", "study"], rows)}

{checked(folder, studies)}All policies of `states`, `needles` and `sinks` evict after each block; in `needles` CriticalKV does so, too, although its paper
evicts once, after the prompt. CriticalKV's 92 % are heads by their mean over all samples, for the first new token; here heads
are counted in each prompt, by their mean over the tokens after the context. KeyDiff's and CAOTE's budgets are counts of entries;
here they are shares of the prompt. The first argument of the script is
the number of prompts; with few prompts most needle rows cannot be told:

    scripts/claims.sh {max(int(row[5]) for row in rows)} {folder}      # makes this page
    scripts/claims.sh 100 build/claims-100
    build/bin/kvloupe study summary {folder}/states.sqlite      # the means behind a study's rows
"""
    beside = target.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(target)


if __name__ == "__main__":
    main()
