#!/usr/bin/env python3
"""How often the heads that a replay blames are those that the running model proves, from files of kvloupe-capture rescue.

    scripts/claims/blame.py FOLDER TARGET

Writes the section "Whose loss makes the answer wrong" of TARGET (docs/results.md, docs/results-real.md) anew from
FOLDER/rescue/*.json, and leaves the rest of that file as it is. FOLDER/rescue.txt has a line that says which prompts
these are, and the commands that make them.
"""
import json
import math
import re
import statistics

from pages import put_section, script, table, wilson

HEADING = "## Whose loss makes the answer wrong"
NUMBERS = [  # field of a predicted head, words
    ("logit", "logit that comes back"),
    ("change", "change of the residual stream"),
    ("loss", "answer's attention × share lost"),
    ("question_loss", "question's attention × share lost"),
]


def median_interval(values):
    """The median with the order statistics that hold it in at least 95 % of samples."""
    values = sorted(values)
    count, below = len(values), 0
    covered = lambda k: 1 - 2 * sum(math.comb(count, i) for i in range(k + 1)) / 2 ** count
    while covered(below + 1) >= 0.95:
        below += 1
    return f"{statistics.median(values):.3g} ({values[below]:.3g} to {values[count - 1 - below]:.3g})"


def read_rescues(folder):
    def number(path):
        return int(re.search(r"(\d+)$", path.stem).group(1))
    found = [json.loads(path.read_text(encoding="utf-8"))
             for path in sorted((folder / "rescue").glob("*.json"), key=number)]
    return [one for one in found if "keep" in one]  # others were stopped, or have nothing to rescue


def within(result, field):
    """So many of the first heads by this number hold the smallest set; None where the number is not known."""
    heads = result["predicted"]["heads"]
    if all(head.get(field) is None for head in heads):
        return None
    known = lambda head: -math.inf if head.get(field) is None else head[field]
    order = sorted(heads, key=lambda head: (-known(head), head["layer"], head["head"]))
    places = {(head["layer"], head["head"]): place for place, head in enumerate(order, 1)}
    return max(places[tuple(head)] for head in result["keep"]["smallest"]["heads"])


def section(rescues, what, commands):
    wrong = [r for r in rescues if not r["policy"]["right"]]
    restored = [r for r in wrong if r["keep"]["smallest"]]
    minimal = [r for r in restored if r["keep"]["smallest"].get("minimal", True)]
    broken = [r for r in wrong if not r["drop"]["all"]["right"]]
    heads = len(rescues[0]["predicted"]["heads"])
    sizes = [len(r["keep"]["smallest"]["heads"]) for r in minimal]
    places = {field: [within(r, field) for r in minimal] for field, _ in NUMBERS}
    known = [(field, words) for field, words in NUMBERS if places[field] and None not in places[field]]
    rows = [[f"{k}"] + [wilson(sum(place <= k for place in places[field]), len(minimal), "") for field, _ in known]
            for k in (1, 2, 3, 4, 6, 8, 12, 20) if k <= heads]
    rows.append(["median k"] + [median_interval(places[field]) for field, _ in known])
    settings = rescues[0]["settings"]
    not_minimal = len(restored) - len(minimal)
    shape = rescues[0].get("shape", {})
    few = shape.get("layers", 0) * (1 + shape.get("heads", 0)) <= 24  # then every head is run alone first
    order = "" if few else (" The search follows the blame by logit: of several sets it finds one whose heads this number names early.")
    ended = f" The search of {not_minimal} more ended before: these are left out below." if not_minimal else ""
    return f"""{HEADING}

{what}
`kvloupe-capture rescue` runs the model with the policy (`{settings["policy"]}`, {settings["budget"]} entries on the first of them, blocks of {settings["block"]}), keeps
the needle in all of the {heads} heads, in layers and in heads alone, and looks for a small set of heads that restores the
answer ([follow.md](follow.md)).{order} Brackets hold 95 % intervals.

- Prompts ({len(wrong)}) that are answered when the needle is kept in all heads: {wilson(len(restored), len(wrong))}.{ended}
- Heads in the smallest set, median: {median_interval(sizes)}; one head alone: {wilson(sizes.count(1), len(sizes))}.
- Prompts that fail when the needle is dropped from the full cache in all heads: {wilson(len(broken), len(wrong))}.
- Runs of the model, median: {median_interval([len(r["runs"]) for r in restored])}.

How often the first k heads by the replay's blame hold the whole smallest set, in percent (`kvloupe follow` takes the first
known number, from left to right):

{table(["k"] + [words for _, words in known], rows)}

{commands}
"""


@script(__doc__)
def main(folder, target):
    what, _, commands = (folder / "rescue.txt").read_text(encoding="utf-8").strip().partition("\n\n")
    put_section(target, section(read_rescues(folder), what, commands.rstrip()), HEADING)
