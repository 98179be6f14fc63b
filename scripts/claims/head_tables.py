#!/usr/bin/env python3
"""Writes the section "A table of entries by head" of docs/results-real.md from the results of scripts/claims/head_tables.sh.

    scripts/claims/head_tables.py FOLDER TARGET

Each table compares runs in the model on prompts that were held back from learning: means with a bootstrap's 95 % intervals
over the prompts, differences of the same prompts, and mean ranks (1 is the best).
"""
import json
import random
import sqlite3
import statistics
import sys
from pathlib import Path

from blame import replace_section, table
from usage import answer_help

HEADING = "## A table of entries by head"
MEASURES = [("answer_found", "answered", -1), ("answer_hidden_distance", "distance of the last hidden states", 1)]


def interval(numbers, resamples=2000):
    """Mean and both ends of its 95 % interval, by the bootstrap's quantiles."""
    chance = random.Random(1)
    means = sorted(statistics.fmean(chance.choices(numbers, k=len(numbers))) for _ in range(resamples))
    return statistics.fmean(numbers), means[round(0.025 * (resamples - 1))], means[round(0.975 * (resamples - 1))]


def written(numbers, sign=False):
    return "{} [{}, {}]".format(*(f"{one:{'+' if sign else ''}.3f}" for one in interval(numbers)))


def ranks(values, better):
    """{policy: mean rank}; better is 1 where less is better, -1 where more is; equal values share their ranks."""
    of = {policy: [] for policy in values}
    for prompt in next(iter(values.values())):
        own = {policy: better * one[prompt] for policy, one in values.items()}
        for policy, value in own.items():
            below, equal = (sum(test(other, value) for other in own.values()) for test in (float.__lt__, float.__eq__))
            of[policy].append(1 + below + (equal - 1) / 2)
    return {policy: statistics.fmean(one) for policy, one in of.items()}


def values_of(file, measure):
    """{policy: {prompt: value}}, of the prompts that all policies have."""
    found = {}
    for prompt, policy, value in file.execute(
            "SELECT i.trace, i.policy, v.value FROM items i JOIN replay_values v USING (item) JOIN measures m USING (measure) "
            "WHERE m.name = ? ORDER BY i.item", (measure,)):
        found.setdefault(policy, {})[prompt] = float(value)
    if not found:
        sys.exit(f"head_tables.py: the results have no {measure}; run scripts/claims/head_tables.sh")
    common = set.intersection(*(set(one) for one in found.values()))
    return {policy: {prompt: one[prompt] for prompt in sorted(common)} for policy, one in found.items()}


def foretold(folder, share):
    """[budget, sharing, loss that the curves of the learning half foretell, loss of replays of the other half]"""
    of = {one["name"]: one["foretold"] for one in json.loads((folder / f"advice-{share}.json").read_text(encoding="utf-8"))["sharings"]}
    file = sqlite3.connect(f"file:{folder / 'held.sqlite'}?mode=ro", uri=True)
    rows = []
    for name, policy in (("uniform", "snapkv"), ("this table", f'snapkv+headbudgets("table-{share}.csv")')):
        held = [value for value, in file.execute(
            "SELECT sum(h.value * h.value) FROM items i JOIN head_values h USING (item) JOIN measures m USING (measure) "
            "WHERE m.name = 'answer_residual_part' AND i.policy = ? AND i.budget = ? GROUP BY i.item", (policy, f"{share}%"))]
        if not held:
            sys.exit(f"head_tables.py: {folder}/held.sqlite has no {policy} at {share} %; run scripts/claims/head_tables.sh")
        mean, low, high = interval(held)
        rows.append([f"{share} %", name, f"{of[name]:.4f}", f"{mean:.4f} [{low:.4f}, {high:.4f}]"])
    return rows


def comparison(path, share):
    if not path.is_file():
        sys.exit(f"head_tables.py: {path} is missing; run scripts/claims/head_tables.sh")
    file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    columns = {}
    for measure, _, better in MEASURES:
        values = values_of(file, measure)
        learnt = next(policy for policy in values if "headbudgets" in policy)
        place = ranks({policy: one for policy, one in values.items() if policy != "full"}, better)
        for policy, one in values.items():
            less = "" if policy in ("full", learnt) else written([values[learnt][p] - one[p] for p in one], sign=True)
            columns.setdefault(policy, []).extend([written(list(one.values())), less, "" if policy == "full" else f"{place[policy]:.2f}"])
        count = len(next(iter(values.values())))
    head = [f"{share}, {count} held-back prompts"]
    for _, words, _ in MEASURES:
        head += [words, "table less this", "rank"]
    return table(head, [[f"`{policy}`", *cells, *[""] * (len(head) - 1 - len(cells))] for policy, cells in columns.items()])


def main():
    answer_help(__doc__)
    if len(sys.argv) != 3:
        sys.exit("head_tables.py: takes FOLDER TARGET")
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    text = f"""{HEADING}

Does a table that is learnt from some prompts help on others? 100 prompts of some 480 tokens: a sentence on which file a module was tried
first, among others of a manual, and a question for the file (`scripts/claims/claims_prompts.py`, task `needle`, length 500). The first 50 were
captured with the full cache and replayed with `snapkv` at six budgets, in blocks of 128. `kvloupe advise --heads` made a table for each
budget below ([study-results.md](study-results.md#how-many-entries-for-each-head)). The other 50 were then run in the closed loop, in float32. At one budget all policies
hold the same number of entries. Brackets: 95 %, bootstrap over the prompts; differences are of the same prompts; rank 1 is the best of
four. A study that was stopped has fewer prompts.

{comparison(folder / "prove-35.sqlite", "35 %")}

{comparison(folder / "prove-20.sqlite", "20 %")}

What the curves of the learning half foretell, and what replays of the held-back half lose (sums over all heads of the squares of
`answer_residual_part`):

{table(["budget", "entries by head", "foretold", "held back"], foretold(folder, "35") + foretold(folder, "20"))}

Limits: one small model, one policy to learn from, and one kind of prompt; the two halves differ in their words and files, not in their
form. A question after the text lets `snapkv` see what is asked for in the last block only.

    scripts/claims/head_tables.sh      # makes this section
"""
    page = target.read_text(encoding="utf-8")
    beside = target.with_suffix(".part")
    beside.write_text(replace_section(page, text, HEADING), encoding="utf-8")
    beside.replace(target)


if __name__ == "__main__":
    main()
