#!/usr/bin/env python3
"""Writes docs/toy-and-real.md from the results of scripts/claims/toy_and_real.sh and scripts/claims/claims.sh.

    scripts/claims/toy_and_real_page.py TOY REAL TARGET

A sentence about a difference stands only if the intervals bear it.
"""
import json
import statistics

from claims_study import Study, mean, share
from claims_verdict import SAME, verdict, written
from pages import script, table, wilson, write

POLICIES = ("keydiff", "sink", "tova", "h2o", "snapkv(pool=max)")
SNAP = "snapkv(pool=max)"


def upper(study):
    """The upper half of the layers."""
    layers = {layer for heads in study.heads("role_sink", "keydiff", "20%").values() for layer, _ in heads}
    return range((1 + max(layers)) // 2, 1 + max(layers))


def measures():
    """(words, numbers of a study's prompts)"""
    return [
        ("heads that give token 0 more than 0.3 of their attention", lambda s: share(s, "role_sink", lambda v: v > 0.3)),
        ("the same, upper half of the layers", lambda s: share(s, "role_sink", lambda v: v > 0.3, layers=upper(s))),
        ("heads that give the last 16 tokens more than 0.6", lambda s: share(s, "role_recent", lambda v: v > 0.6)),
        ("cosine of neighbouring keys", lambda s: mean(s, "neighbour_key_cosine")),
        ("cosine of neighbouring values", lambda s: mean(s, "neighbour_value_cosine")),
        ("heads whose mean key and mean query point apart", lambda s: share(s, "mean_key_query_cosine", lambda v: v < 0)),
        ("rank correlation of a key's likeness to the others and its attention", lambda s: mean(s, "key_attention_correlation")),
        ("attention that the best fifth of the entries holds", lambda s: mean(s, "best_mass")),
        ("the same, of the fifth that `tova` holds", lambda s: mean(s, "retained_mass", "tova")),
        ("the same, of the fifth that `keydiff` holds", lambda s: mean(s, "retained_mass")),
        ("heads whose stage one holds more than half the attention (CriticalKV)",
         lambda s: mean(s, "assumption_holds", SNAP + "+critical")),
    ]


def apart(toy, real):
    """Whether the intervals of two means do not touch."""
    (a, x, _), (b, y, _) = verdict(toy, ">", 0), verdict(real, ">", 0)
    enough = all(half is not None or len(numbers) >= SAME for half, numbers in ((x, toy), (y, real)))
    return enough and abs(a - b) > (x or 0) + (y or 0)  # without an interval all numbers are equal


def ordered(study):
    """Policies by mean output error, the lowest first."""
    of = {policy: statistics.fmean(mean(study, "output_error", policy)) for policy in POLICIES}
    return sorted(of, key=of.get)


def toy_answers(path):
    """{(policy, budget): [1 or 0]}"""
    found = {}
    for run in json.loads(path.read_text(encoding="utf-8"))["runs"]:
        found.setdefault((run["policy"], run["budget"]), []).append(run["correct"])
    return found


def real_answers(study, policy, budget):
    right, of = study.answered(), study.prompts("answer_found", policy, budget)
    return [of[prompt] == 1 for prompt in of if prompt in right]


def lessons(toy, real, answers, needles):
    """Sentences whose conditions are computed."""
    found = []
    sinks = [share(s, "role_sink", lambda v: v > 0.3, layers=upper(s)) for s in (toy, real)]
    if apart(*sinks):
        more = "real" if statistics.fmean(sinks[1]) > statistics.fmean(sinks[0]) else "demo"
        found.append(f"**Sinks** (lessons 2 and 3). In the upper half of the layers {100 * statistics.fmean(sinks[0]):.0f} % of the demo model's heads rest on token 0, and "
                     f"{100 * statistics.fmean(sinks[1]):.0f} % of the real model's. A lesson on sinks shows more of them on a {more} trace.")
    alike = [mean(s, "neighbour_key_cosine") for s in (toy, real)]
    if apart(*alike):
        found.append(f"**Neighbours** (lesson 8). Neighbouring keys have a cosine of {statistics.fmean(alike[0]):.2f} in the demo model and {statistics.fmean(alike[1]):.2f} in the real one. "
                     "The threshold of a merge (0.75 in the paper) therefore means something else in each.")
    spread = [mean(s, "best_mass") for s in (toy, real)]
    if apart(*spread):
        found.append(f"**What there is to lose.** The best fifth of the entries holds {100 * statistics.fmean(spread[0]):.1f} % of the attention of a block's last query in "
                     f"the demo model and {100 * statistics.fmean(spread[1]):.1f} % in the real one: no policy can keep more for this query at 20 %.")
    distinct = [mean(s, "key_attention_correlation") for s in (toy, real)]
    if apart(*distinct):
        found.append("**Distinct keys** (lesson 4). KeyDiff expects that keys unlike the others receive more attention, a negative rank correlation: it is "
                     f"{statistics.fmean(distinct[0]):.2f} in the demo model and {statistics.fmean(distinct[1]):.2f} in the real one "
                     "([claims.md](claims.md#looked-into) says in which layers).")
    orders = [ordered(s) for s in (toy, real)]
    if orders[0] != orders[1]:
        found.append(f"**Which policy wins.** By output error at 20 % the order (best first) is {', '.join(f'`{one}`' for one in orders[0])} in the demo model, and "
                     f"{', '.join(f'`{one}`' for one in orders[1])} in the real one: {sum(a == b for a, b in zip(*orders))} of {len(POLICIES)} have the same place.")
    else:
        found.append(f"**Which policy wins.** By output error at 20 % both models have the same order, best first: {', '.join(f'`{one}`' for one in orders[0])}.")
    best = [max(POLICIES, key=lambda p, of=of: statistics.fmean(of(p))) for of in
            (lambda p: answers[p, "50%"], lambda p: real_answers(needles, p, "50%"))]
    low = ordered(real)[0]
    if best[0] == best[1]:
        found.append(f"**Answers.** At 50 % `{best[0]}` finds most needles in both models" + (
            f", although `{low}` has the lowest output error in the real one: the error is a mean over all heads and tokens, the answer needs one sentence."
            if low != best[0] else "."))
    else:
        found.append(f"**Answers.** At 50 % `{best[0]}` finds most needles in the demo model, `{best[1]}` in the real one.")
    for policy in POLICIES:
        demo, other = (sum(of) / len(of) for of in (answers[policy, "50%"], real_answers(needles, policy, "50%")))
        if abs(demo - other) > 0.25:
            found[-1] += f" `{policy}` finds {100 * demo:.0f} % in the demo model and {100 * other:.0f} % in the real one."
    return found


@script(__doc__)
def main(toy_folder, real_folder, target):
    toy, real, needles = Study(toy_folder / "states.sqlite"), Study(real_folder / "states.sqlite"), Study(real_folder / "needles.sqlite")
    answers = toy_answers(toy_folder / "needle.json")
    rows = []
    for words, compute in measures():
        one, other = compute(toy), compute(real)
        rows.append([words, written(one), written(other), "yes" if apart(one, other) else "no"])
    errors = [[f"`{policy}`", written(mean(toy, "output_error", policy)), written(mean(real, "output_error", policy)),
               *(wilson(sum(of), len(of)) for budget in ("25%", "50%") for of in (answers[policy, budget], real_answers(needles, policy, budget)))]
              for policy in POLICIES]
    says = "\n\n".join(lessons(toy, real, answers, needles))
    text = f"""# Where the demo model and a real model differ

The lessons open on the demo model (2.7 million parameters, trained on made sentences) and, with `--trace`, on any other trace.
This page sets the demo model beside SmolLM2-135M-Instruct, so that a teacher knows which statements hold for both. Both read
needles in some 1 000 tokens, in blocks of 128: the demo model a number in sentences of its own language ({len(toy.whole)} prompts), the
real model a file's name in a manual ({len(real.whole)} prompts in replays, {len(needles.whole)} in runs).

{says}

## The numbers

Means over prompts with 95 % intervals (Student's t). *Differ*: the intervals do not touch.

{table(["measure, full cache or 20 %", "demo model", "SmolLM2-135M", "differ"], rows)}

Output error at 20 % in a replay, and the share of needles found by the running model, with Wilson's interval; in the real model
of the prompts that the full cache answers:

{table(["policy", "error, demo", "error, SmolLM2", "found at 25 %, demo", "found at 25 %, SmolLM2", "found at 50 %, demo", "found at 50 %, SmolLM2"], errors)}

    scripts/claims/claims.sh 100 {real_folder}
    scripts/claims/toy_and_real.sh {real_folder}      # makes this page
"""
    write(target, text)
