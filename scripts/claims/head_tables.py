#!/usr/bin/env python3
"""Writes the section "A table of entries by head" of docs/results-real.md from the results of scripts/claims/head_tables.sh.

    scripts/claims/head_tables.py FOLDER TARGET

Each table compares runs in the model on prompts that were held back from learning: means with a bootstrap's 95 % intervals
over the prompts, differences of the same prompts, and mean ranks (1 is the best).
"""
import json
import statistics

from pages import fail, interval, opened, put_section, ranks as ranked, script, table, values_of, with_interval as written

HEADING = "## A table of entries by head"
MEASURES = [("answer_found", "answered", -1), ("answer_hidden_distance", "distance of the last hidden states", 1)]


def ranks(values, better):
    """{policy: mean rank}; better is 1 where less is better, -1 where more is; equal values share their ranks."""
    of = [ranked([better * one[prompt] for one in values.values()]) for prompt in next(iter(values.values()))]
    return dict(zip(values, map(statistics.fmean, zip(*of))))


def values(path, measure):
    """{policy: {prompt: value}}, of the prompts that all policies have."""
    found = {policy: one for (policy, _), one in values_of(path, measure, "head_tables.sh").items()}
    if not found:
        fail(f"the results have no {measure}; run scripts/claims/head_tables.sh")
    common = sorted(set.intersection(*map(set, found.values())))
    return {policy: {prompt: one[prompt] for prompt in common} for policy, one in found.items()}


def foretold(folder, share):
    """[budget, sharing, loss that the curves of the learning half foretell, loss of replays of the other half]"""
    of = {one["name"]: one["foretold"] for one in json.loads((folder / f"advice-{share}.json").read_text(encoding="utf-8"))["sharings"]}
    file = opened(folder / "held.sqlite", "head_tables.sh")
    rows = []
    for name, policy in (("uniform", "snapkv"), ("this table", f'snapkv+headbudgets("table-{share}.csv")')):
        held = [value for value, in file.execute(
            "SELECT sum(h.value * h.value) FROM items i JOIN head_values h USING (item) JOIN measures m USING (measure) "
            "WHERE m.name = 'answer_residual_part' AND i.policy = ? AND i.budget = ? GROUP BY i.item", (policy, f"{share}%"))]
        if not held:
            fail(f"{folder}/held.sqlite has no {policy} at {share} %; run scripts/claims/head_tables.sh")
        mean, low, high = interval(held)
        rows.append([f"{share} %", name, f"{of[name]:.4f}", f"{mean:.4f} [{low:.4f}, {high:.4f}]"])
    return rows


def comparison(path, share):
    columns = {}
    for measure, _, better in MEASURES:
        of = values(path, measure)
        learnt = next(policy for policy in of if "headbudgets" in policy)
        place = ranks({policy: one for policy, one in of.items() if policy != "full"}, better)
        for policy, one in of.items():
            less = "" if policy in ("full", learnt) else written([of[learnt][p] - one[p] for p in one], sign=True)
            columns.setdefault(policy, []).extend([written(list(one.values())), less, "" if policy == "full" else f"{place[policy]:.2f}"])
        count = len(next(iter(of.values())))
    head = [f"{share}, {count} held-back prompts"]
    for _, words, _ in MEASURES:
        head += [words, "table less this", "rank"]
    return table(head, [[f"`{policy}`", *cells, *[""] * (len(head) - 1 - len(cells))] for policy, cells in columns.items()])


@script(__doc__)
def main(folder, target):
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
    put_section(target, text, HEADING)
