#!/usr/bin/env python3
"""Writes docs/results.md from the JSON files of scripts/results.sh: results.py FOLDER TARGET."""
import json
import pathlib
import sys

folder, target = map(pathlib.Path, sys.argv[1:])


def load(name):
    with open(folder / f"{name}.json", encoding="utf-8") as file:
        return json.load(file)


def rate(runs):
    return f"{100 * sum(run['correct'] for run in runs) / len(runs):.0f}" if runs else "–"


def settings_of(runs):
    """(policy, budget) in the order of the file, the full cache first."""
    return list(dict.fromkeys((run["policy"], run["budget"]) for run in runs))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def name(policy, budget):
    return f"`{policy}`" if budget == "full" else f"`{policy}`, {budget}"


def grid(results, columns, column_of):
    """Share found in percent, a row per policy and budget."""
    rows = []
    for policy, budget in settings_of(results["runs"]):
        own = [r for r in results["runs"] if (r["policy"], r["budget"]) == (policy, budget)]
        cells = [rate([r for r in own if column_of(r) == column]) for column in columns]
        rows.append([name(policy, budget), rate(own)] + cells)
    return rows


def count(results):
    return len(results["runs"]) // len(settings_of(results["runs"]))


def only_length(results):
    return ", ".join(str(length) for length in sorted({run["length"] for run in results["runs"]}))


needle, context, four = load("needle"), load("needle-context-only"), load("four-needles")
perplexity = load("perplexity")
lengths = sorted({run["length"] for run in needle["runs"]})
depths = sorted({run["depth"] for run in needle["runs"]})
settings = needle["settings"]

perplexity_rows = []
for line in perplexity["summary"]:
    kl, same = line.get("kl"), line.get("same_top1")
    perplexity_rows.append([
        name(line["policy"], line["budget"]), f"{line['perplexity']:.2f}",
        f"{line['loss_difference']:+.4f}", "–" if kl is None else f"{kl:.4f}",
        "–" if same is None else f"{100 * same:.1f}"])

text = f"""# Results with the demo model

Written by `scripts/results.sh`, which runs `kvloupe-capture eval`; how it measures is in
[evaluation.md](evaluation.md). Every policy runs in the model's own cache (closed loop), prompt
blocks of {settings['block']}, {settings['dtype']}. A budget is a share of the prompt. The model is small and made for this
tool, and the prompts are few: what a policy does here says little about large models. `kvmerger` multiplies
a merged value by the size of its set, as its paper says; with block after block that compounds
(`value_scale=one` leaves it out).

## One needle, the policy sees the question

Numbers found, in percent, of {count(needle)} prompts: by the prompt's length in tokens.

![Needles found by length and depth, one map per policy, at a budget of 25 %](images/needles.svg)

{table(["policy, budget", "all"] + [str(l) for l in lengths], grid(needle, lengths, lambda r: r["length"]))}

The same by depth, percent of the text before the needle:

{table(["policy, budget", "all"] + [f"{d:g} %" for d in depths], grid(needle, depths, lambda r: r["depth"]))}

## One needle, cut before the question

The cache is cut while the context is read, and no more once the question starts: {only_length(context)} tokens,
{count(context)} prompts, in percent by depth.

{table(["policy, budget", "all"] + [f"{d:g} %" for d in depths], grid(context, depths, lambda r: r["depth"]))}

## Four needles, one is asked for

{only_length(four)} tokens, {count(four)} prompts, in percent by the depth of the needle asked for.

{table(["policy, budget", "all"] + [f"{d:g} %" for d in depths], grid(four, depths, lambda r: r["depth"]))}

## Perplexity

Of generated text the model was not trained on, {only_length(perplexity)} tokens. Loss: difference from the full cache in
nats. KL: of the next-token distributions, from the full cache's, mean over the tokens. Same: share of
tokens after which the most probable next token is the full cache's, in percent.

![Perplexity less the full cache's against the budget, one line per policy](images/perplexity.svg)

{table(["policy, budget", "perplexity", "loss", "KL", "same"], perplexity_rows)}
"""
target.write_text(text, encoding="utf-8")
