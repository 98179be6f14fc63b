#!/usr/bin/env python3
"""Writes docs/claims.md from the results of scripts/claims.sh.

    scripts/claims_page.py FOLDER TARGET

Each row of ROWS is one number per prompt, computed from FOLDER/STUDY.sqlite, and the side of a threshold on which the
claim puts its mean. Interval and verdict: see the page.
"""
import math
import sqlite3
import statistics
import sys
from pathlib import Path

from blame import table


class Study:
    def __init__(self, path):
        if not path.is_file():
            sys.exit(f"claims_page.py: {path} is missing; run scripts/claims.sh")
        self.rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        waiting = self.rows.execute("SELECT count(*) FROM items WHERE state != 'done'").fetchone()[0]
        if waiting:
            sys.exit(f"claims_page.py: {path} has {waiting} items that are not done; run scripts/claims.sh again")

    def heads(self, measure, policy, budget):
        """{prompt: {(layer, head): value}}, known values only."""
        found = {}
        for trace, layer, head, value in self.rows.execute(
                "SELECT i.trace, h.layer, h.head, h.value FROM items i JOIN head_values h USING (item) JOIN measures m "
                "USING (measure) WHERE m.name = ? AND i.policy = ? AND i.budget = ?", (measure, policy, budget)):
            if value is not None:
                found.setdefault(trace, {})[layer, head] = value
        return found

    def prompts(self, measure, policy, budget):
        """{prompt: value}"""
        return {trace: value for trace, value in self.rows.execute(
            "SELECT i.trace, v.value FROM items i JOIN replay_values v USING (item) JOIN measures m USING (measure) "
            "WHERE m.name = ? AND i.policy = ? AND i.budget = ?", (measure, policy, budget)) if value is not None}


def mean(study, measure, policy="keydiff", budget="20%"):
    return list(study.prompts(measure, policy, budget).values())


def share(study, measure, condition, policy="keydiff", budget="20%", layers=None):
    """The share of heads (of some layers) that meet a condition."""
    found = study.heads(measure, policy, budget).values()
    return [statistics.fmean(condition(value) for (layer, _), value in heads.items() if layers is None or layer in layers)
            for heads in found]


def minus(study, measure, policy, other, budget="20%"):
    """policy − other"""
    first, second = study.prompts(measure, policy, budget), study.prompts(measure, other, budget)
    return [first[prompt] - second[prompt] for prompt in sorted(first.keys() & second.keys())]


def lower(study, measure, policy, other, budget="20%"):
    """The share of heads in which policy has the lower value."""
    first, second = study.heads(measure, policy, budget), study.heads(measure, other, budget)
    return [statistics.fmean(first[p][h] < second[p][h] for h in first[p].keys() & second[p].keys())
            for p in sorted(first.keys() & second.keys())]


def critical_rows():
    """One eviction after the context, as in the paper; ℒ of the tokens after the context."""
    for name, policy, place, theirs in (("SnapKV", "snapkv(pool=max)", "fig. 5, 7", "92 %"),
                                        ("AdaKV", "snapkv(pool=max)+adakv", "fig. 11", "lower at each budget")):
        for budget in ("5%", "10%", "20%", "40%"):
            yield ("CriticalKV", f"Share of heads where two stages lower ℒ₁ on {name}, {budget}", place, theirs, "once",
                   lambda s, p=policy, b=budget: lower(s, "later_perturbation_l1", p + "+critical", p, b), ">", 0.5)
    for budget in ("5%", "10%", "20%", "40%"):
        yield ("CriticalKV", f"Mean ℒ₁ of all heads, two stages on SnapKV − SnapKV, {budget}", "def. 2.1, fig. 7", "lower", "once",
               lambda s, b=budget: minus(s, "later_perturbation_l1", "snapkv(pool=max)+critical", "snapkv(pool=max)", b), "<", 0)
    for budget in ("5%", "10%", "20%", "40%"):
        yield ("CriticalKV", f"Share of heads where stage one holds more than half the attention (assumption 3.4), {budget}",
               "fig. 8", "over 99 %", "once",
               lambda s, b=budget: mean(s, "assumption_holds", "snapkv(pool=max)+critical", b), ">", 0.99)


def caote_rows():
    theirs = {"h2o": ("3.814 → 3.561", "0.104 → 0.160"), "tova": ("0.493 → 0.442", "0.172 → 0.150"),
              "snapkv": ("0.555 → 0.451", "0.154 → 0.172")}
    for policy in theirs:
        yield ("CAOTE", f"Output error, `{policy}+caote` − `{policy}`, 20 %", "fig. 3", "always smaller", "states",
               lambda s, p=policy: minus(s, "output_error", f"{p}+caote", p), "<", 0)
    for policy in theirs:
        yield ("CAOTE", f"Loss of prose (nats), `{policy}+caote` − `{policy}`, 25 %", "tab. 4",
               f"perplexity over the full cache's, 3B, 2k: {theirs[policy][0]}", "sinks",
               lambda s, p=policy: minus(s, "perplexity_loss", f"{p}+caote", p, "25%"), "<", 0)


def needle_rows():
    for budget in ("10%", "25%", "50%"):
        for other in ("sink", "tova", "h2o", "snapkv(pool=max)"):
            yield ("KeyDiff", f"Needles found, `keydiff` − `{other}`, {budget}", "fig. 6", "more, of all depths and lengths",
                   "needles", lambda s, b=budget, o=other: minus(s, "answer_found", "keydiff", o, b), ">", 0)
        yield ("CriticalKV", f"Needles found, with − without two stages on SnapKV, {budget}", "fig. 1", "more, or no loss",
               "needles", lambda s, b=budget: minus(s, "answer_found", "snapkv(pool=max)+critical", "snapkv(pool=max)", b), ">", 0)
        yield ("CAOTE", f"Needles found, `tova+caote` − `tova`, {budget}", "tab. 5", "0.172 → 0.150 (3B, 2k), 0.220 → 0.232 (4k)",
               "needles", lambda s, b=budget: minus(s, "answer_found", "tova+caote", "tova", b), ">", 0)


ROWS = [  # paper, claim, place, their number, study, numbers of the prompts, side, threshold
    ("KeyDiff", "Rank correlation of a key's mean cosine to the others and the attention it receives, mean of heads",
     "fig. 2, §3.1", "negative", "states", lambda s: mean(s, "key_attention_correlation"), "<", 0),
    ("KeyDiff", "Share of heads whose mean key and mean query have a negative cosine", "fig. 12", "all heads", "states",
     lambda s: share(s, "mean_key_query_cosine", lambda v: v < 0), ">", 0.99),
    ("KeyDiff", "Cosine to the mean query, distinct keys − mean key", "fig. 14", "larger", "states",
     lambda s: [a - b for a, b in zip(mean(s, "distinct_keys_query_cosine"), mean(s, "mean_key_query_cosine"))], ">", 0),
    *[("KeyDiff", f"Log volume of the retained keys, `keydiff` − `{other}`, 20 %", "fig. 5", "larger", "states",
       lambda s, o=other: minus(s, "log_pseudo_determinant", "keydiff", o), ">", 0) for other in ("sink", "tova", "snapkv")],
    ("KeyDiff", "Mean cosine of retained keys, `keydiff` − `tova`, 20 %", "§3.3", "smaller", "states",
     lambda s: minus(s, "key_mean_cosine", "keydiff", "tova"), "<", 0),
    *critical_rows(),
    ("CriticalKV", "Largest ℒ₁/θ of any head, two stages on SnapKV, 20 %", "thm. 3.3", "at most 1", "states",
     lambda s: [max(heads.values()) for heads in s.heads("tightness_l1", "snapkv(pool=max)+critical", "20%").values()], "<", 1),
    *caote_rows(),
    ("CAOTE", "Output error, 20 %: distance of `tova+fastcaote` to `tova+caote` − distance of `tova+caote` to `tova`", "tab. 4", "nearly alike", "states",
     lambda s: [abs(f) - abs(g) for f, g in zip(minus(s, "output_error", "tova+fastcaote", "tova+caote"),
                                               minus(s, "output_error", "tova+caote", "tova"))], "<", 0),
    ("KVMerger", "Cosine of neighbours, keys − values", "fig. 2, 3a", "keys alike, values not", "states",
     lambda s: [a - b for a, b in zip(mean(s, "neighbour_key_cosine"), mean(s, "neighbour_value_cosine"))], ">", 0),
    ("KVMerger", "Output error, `h2o+kvmerger` − `h2o`, 50 %", "tab. 1", "better answers", "states",
     lambda s: minus(s, "output_error", "h2o+kvmerger", "h2o", "50%"), "<", 0),
    ("KVMerger", "Output error, Gaussian weights − mean, 50 %", "fig. 3c", "better answers", "states",
     lambda s: minus(s, "output_error", "h2o+kvmerger", "h2o+kvmerger(weights=mean)", "50%"), "<", 0),
    ("StreamingLLM", "Share of heads in the upper half of the layers that give token 0 more than 0.3", "§3.1",
     "nearly all heads above the first layers", "states",
     lambda s: share(s, "role_sink", lambda v: v > 0.3, layers=range(15, 30)), ">", 0.5),
    ("StreamingLLM", "Loss of prose (nats), recent tokens alone − with four first tokens, 25 %", "§3.1", "collapses without", "sinks",
     lambda s: minus(s, "perplexity_loss", "sink(0)", "sink", "25%"), ">", 0),
    ("StreamingLLM", "Loss of prose (nats), one first token − four, 25 %", "§3.1", "one is not enough, four are", "sinks",
     lambda s: minus(s, "perplexity_loss", "sink(1)", "sink", "25%"), ">", 0),
    *needle_rows(),
]


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

All policies of `states`, `needles` and `sinks` evict after each block; in `needles` CriticalKV does so, too, although its paper
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
