#!/usr/bin/env python3
"""Writes the section "Fewer entries or fewer bits" of docs/results-real.md from the results of scripts/claims/few_bits.sh.

    scripts/claims/few_bits.py FOLDER TARGET

Answers and distances are of runs in the model, with a bootstrap's 95 % intervals over the prompts; bytes are those that
`kvloupe replay` counts after the last token of the captured prompts.
"""
import json
import statistics
import subprocess

from pages import fail, interval, put_section, script, table, values_of, with_interval as written

HEADING = "## Fewer entries or fewer bits"


def held(folder, policy, budget):
    """Megabytes after the last token, and their share of the full cache's in 16 bits: means over the traces."""
    megabytes, shares = [], []
    for trace in sorted((folder / "traces").glob("*.h5")):
        words = ["build/bin/kvloupe", "replay", trace, "--policy", policy, "--budget", "100%" if budget == "full" else budget,
                 "--json", "-", "--steps", "last", "--measures", "none"]
        told = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["bytes"]
        megabytes.append(told["held"] / 1e6)
        shares.append(told["held"] / told["full"])
    if not shares:
        fail(f"{folder}/traces is empty; run scripts/claims/few_bits.sh")
    return statistics.fmean(megabytes), statistics.fmean(shares), len(shares)


@script(__doc__)
def main(folder, target):
    measured = {}
    for name in ("bits", "entries"):
        answers, far = (values_of(folder / f"{name}.sqlite", f"answer_{one}", "few_bits.sh") for one in ("found", "hidden_distance"))
        for setting, one in answers.items():
            measured.setdefault(setting, (one, far.get(setting, {})))
    full = measured["full", "full"][0]
    prompts = sorted(set.intersection(*(set(one) for one, _ in measured.values())))
    rows, traces = [], 0
    for (policy, budget), (answers, far) in measured.items():
        megabytes, share, traces = held(folder, policy, budget)
        less = "" if policy == "full" else written([answers[one] - full[one] for one in prompts], sign=True)
        mean, low, high = interval([answers[one] for one in prompts])
        distance = written([far[one] for one in prompts]) if policy != "full" else ""
        everything = policy.startswith("full")
        rows.append((share, [f"`{policy}`", "all" if everything else budget.replace("%", " %"), f"{100 * share:.0f} %",
                             f"{megabytes:.2f}", f"{mean:.2f} [{low:.2f}, {high:.2f}]", less, distance]))
    rows.sort(key=lambda row: -row[0])
    bits = lambda count: f"quant({'' if count == 4 else f'{count},'}group=32,residual=32)"
    more = lambda one, other: written([measured[one][0][at] - measured[other][0][at] for at in prompts], sign=True)
    percent = {key: f"{100 * held(folder, *key)[1]:.0f} %" for key in measured}
    four, two = (f"full+{bits(4)}", "100%"), (f"full+{bits(2)}", "100%")
    said = ["Differences of the share that is answered:", "",
            f"- four bits for all entries ({percent[four]} of the bytes) less 16 bits: {more(four, ('full', 'full'))}"]
    for score in ("keydiff", "snapkv"):
        quarter, both = (score, "25%"), (f"{score}+{bits(4)}", "75%")
        said.append(f"- less `{score}` with a quarter of the entries ({percent[quarter]} of the bytes): four bits {more(four, quarter)}, two bits "
                    f"({percent[two]})\n  {more(two, quarter)}, and `{score}` with three quarters of the entries in four bits ({percent[both]}) "
                    f"{more(both, quarter)}")
    answer = "\n".join(said)
    text = f"""{HEADING}

Evict to a quarter, or hold everything in four bits? {len(prompts)} prompts of some 480 tokens, as [above](#a-table-of-entries-by-head) (task
`needle`, length 500), in the running model: SmolLM2-135M-Instruct in float32, blocks of 128. Bits are those of KIVI: keys share scales along 32 entries, values
along 32 channels, and the last 32 entries of a head are exact; a `quant` without a number has 4 bits. *Bytes*: what the caches hold after the last token, with scales and zero
points, of those of the full cache in 16 bits; from replays of {traces} of the prompts. Brackets: 95 %, bootstrap over the prompts; differences are
of the same prompts. *Distance*: of the last hidden states from the full cache's, relative.

{table(["policy", "entries", "bytes", "MB", "answered", "less the full cache", "distance"], [row for _, row in rows])}

{answer}

Limits: one small model, one kind of prompt, a context that is short beside the exact entries: of 480 tokens, 32 are held
in 16 bits. Where an interval of differences is zero, every prompt was answered alike; {len(prompts)} prompts do not show a small difference.

    scripts/claims/few_bits.sh      # makes this section
"""
    put_section(target, text, HEADING)
