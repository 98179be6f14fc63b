#!/usr/bin/env python3
"""Writes docs/results.md from the JSON files of scripts/claims/results.sh: results.py FOLDER TARGET."""
import json
import statistics

from pages import by_policy, of_budgets, resampled, script, signed, table, wilson, write


def rate(runs):
    return f"{100 * sum(run['correct'] for run in runs) / len(runs):.0f}" if runs else "–"


def rate_with_interval(runs):
    """As rate, with its 95 % interval (Wilson's)."""
    return wilson(sum(run["correct"] for run in runs), len(runs), "") if runs else "–"


def paired_interval(differences):
    """Mean difference from the full cache on the same texts, with its 95 % bootstrap interval over texts."""
    means = resampled(differences)
    return f"{signed(statistics.fmean(differences), '+.3f')} ({signed(means[49], '+.3f')} to {signed(means[1949], '+.3f')})"


def settings_of(runs):
    """(policy, budget) in the order of the file, the full cache first."""
    return list(dict.fromkeys((run["policy"], run["budget"]) for run in runs))


def grid(results, columns, column_of):
    """Share found in percent, a row per policy."""
    def cells(policy, budget):
        own = [r for r in results["runs"] if (r["policy"], r["budget"]) == (policy, budget)]
        return [rate_with_interval(own)] + [rate([r for r in own if column_of(r) == column]) for column in columns]
    return by_policy(settings_of(results["runs"]), cells)


def count(results):
    return len(results["runs"]) // len(settings_of(results["runs"]))


def only_length(results):
    return ", ".join(str(length) for length in sorted({run["length"] for run in results["runs"]}))


def distances(run):
    """After each layer, then after the norm."""
    return run["hidden_distance"] + [run["normed_distance"]]


def after_layers(results):
    """Heads of a table of distances."""
    line = next(line for line in results["summary"] if "hidden_distance" in line)
    return [f"layer {layer}" for layer in range(len(line["hidden_distance"]))] + ["norm"]


def with_and_without(results, what):
    """Effect of "+critical" on a policy's mean distances: rows of a table, and the changes in percent."""
    def case(run):
        return run["budget"], run["length"], run["sample"], run.get("depth")
    of = {}
    for run in results["runs"]:
        of.setdefault(run["policy"], {})[case(run)] = run
    rows, changes = [], []
    for policy, budget in settings_of(results["runs"]):
        if policy + "+critical" not in of or budget == "full":
            continue
        pairs = [(distances(run), distances(of[policy + "+critical"][key]))
                 for key, run in of[policy].items() if key[0] == budget]
        rows.append([f"{what} `{policy}`, {budget}"])
        changes.append([])
        for place in range(len(pairs[0][0])):
            without, with_it = (sum(pair[i][place] for pair in pairs) for i in (0, 1))
            changes[-1].append(100 * (with_it / without - 1) if without > 0 else 0.0)
            lower = sum(pair[1][place] < pair[0][place] for pair in pairs)
            rows[-1].append(f"{signed(changes[-1][-1], '+.1f')} ({lower}/{len(pairs)})")
    return rows, changes


def lowered(changes):
    return f"{sum(change < 0 for change in changes)} of {len(changes)}"


def median(changes):
    return f"{signed(statistics.median(changes), '+.1f')} %"


def after(changes, place):
    return [row[place] for row in changes]


@script(__doc__)
def main(folder, target):
    needle, context, four, perplexity, critical = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in (
        "needle", "needle-context-only", "four-needles", "perplexity", "critical"))
    lengths = sorted({run["length"] for run in needle["runs"]})
    depths = sorted({run["depth"] for run in needle["runs"]})
    settings = needle["settings"]

    lines = {(line["policy"], line["budget"]): line for line in perplexity["summary"]}

    def perplexity_cells(policy, budget):
        line = lines[policy, budget]
        differences = [run["loss_difference"] for run in perplexity["runs"] if (run["policy"], run["budget"]) == (policy, budget)]
        kl, same = line.get("kl"), line.get("same_top1")
        return [f"{line['perplexity']:.2f}", "0" if budget == "full" else paired_interval(differences), "–" if kl is None else f"{kl:.4f}",
                "–" if same is None else f"{100 * same:.1f}"]

    perplexity_rows = by_policy(lines, perplexity_cells)
    drift_rows = by_policy([one for one in lines if "hidden_distance" in lines[one]],
                           lambda policy, budget: [f"{100 * distance:.2f}" for distance in distances(lines[policy, budget])])
    budgets = of_budgets(settings_of(needle["runs"]))
    by_length_and_depth = [by_length + by_depth[2:] for by_length, by_depth in zip(
        grid(needle, lengths, lambda r: r["length"]), grid(needle, depths, lambda r: r["depth"]))]
    text_rows, text_changes = with_and_without(critical, "texts:")
    needle_rows, needle_changes = with_and_without(needle, "needles:")

    later_of_texts = [change for row in text_changes for change in row[1:]]
    later_of_needles = [change for row in needle_changes for change in row[1:]]
    write(target, f"""# Results with the demo model

`scripts/claims/results.sh` wrote this page with `kvloupe-capture eval` ([evaluation.md](evaluation.md)). Every policy runs in the
model's own cache (closed loop), prompt blocks of {settings['block']}, {settings['dtype']}; a budget is a share of the prompt. The model is small and
made for this tool: these results say little about large models. `kvmerger` multiplies a merged value by the size of its set;
over many blocks these factors multiply (`value_scale=one` leaves them out).

## One needle, the policy sees the question

Numbers found, in percent, of {count(needle)} prompts, by the prompt's length in tokens and by depth (percent of the text before the
needle). Brackets hold 95 % intervals.

![Needles found by length and depth, one map per policy, at a budget of 25 %](images/needles.svg)

{table([budgets, "all"] + [f"{l} tokens" for l in lengths] + [f"{d:g} %" for d in depths], by_length_and_depth)}

## One needle, cut before the question

The policy evicts while the context is read and stops before the question: {only_length(context)} tokens,
{count(context)} prompts, in percent by depth.

{table([budgets, "all"] + [f"{d:g} %" for d in depths], grid(context, depths, lambda r: r["depth"]))}

## Four needles, one is asked for

{only_length(four)} tokens, {count(four)} prompts, in percent by the depth of the needle asked for.

{table([budgets, "all"] + [f"{d:g} %" for d in depths], grid(four, depths, lambda r: r["depth"]))}

## Perplexity

{count(perplexity)} generated texts that were not in the training, {only_length(perplexity)} tokens each. Beside the full cache on the same texts: *loss*, the
difference in nats, with its 95 % bootstrap interval over texts; *KL* of the next-token distributions, mean over the tokens;
*same*, the share of tokens with the same most probable next token, in percent.

![Perplexity minus the full cache's, by budget, one line per policy](images/perplexity.svg)

{table([budgets, "perplexity", "loss", "KL", "same"], perplexity_rows)}

## Hidden states through the layers

The same text: mean distance ‖h′ − h‖ / ‖h‖ between the hidden states and those of the full cache, in percent,
after each layer and after the last norm. The values of `kvmerger` are too large for the picture.

![Mean distance of hidden states after each layer, one line per policy, at a budget of 25 %](images/layer-drift.svg)

{table([budgets] + after_layers(perplexity), drift_rows)}

Do the two stages of CriticalKV lower this distance, as in its paper (figure 6: an 8B model, 200 news summaries at 20 %, more
in deeper layers)? Change of the mean distance by `+critical`, in percent, and the number of cases with a smaller one. Texts:
{count(critical)} of {only_length(critical)} tokens, means over all tokens. Needles: the prompts of the first part, at the last token.

{table(["policy, budget"] + after_layers(critical), text_rows + needle_rows)}

Over texts, {lowered(later_of_texts)} means from layer 1 on are smaller with `+critical`, and the median change is {median(later_of_texts)};
after layer 0, where the drift is small, {lowered(after(text_changes, 0))}. Deeper layers: {median(after(text_changes, 1))} after layer 1, {median(after(text_changes, -2))} after the last,
{median(after(text_changes, -1))} after the norm. At the last token of needle prompts {lowered(later_of_needles)} are smaller, {median(later_of_needles)} in the
median; a single prompt has a large weight there.
""")
