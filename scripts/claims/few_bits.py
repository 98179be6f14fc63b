#!/usr/bin/env python3
"""Writes the section "Fewer entries or fewer bits" of docs/results-real.md from the results of scripts/claims/few_bits.sh.

    scripts/claims/few_bits.py FOLDER TARGET

Answers and distances are of runs in the model, with a bootstrap's 95 % intervals over the prompts; bytes are those that
`kvloupe replay` counts after the last token of the captured prompts.
"""
import json
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path

from blame import replace_section, table
from usage import answer_help
from head_tables import interval, written

HEADING = "## Fewer entries or fewer bits"


def values_of(path, measure):
    """{(policy, budget): {prompt: value}}; the full cache's budget is "full"."""
    if not path.is_file():
        sys.exit(f"few_bits.py: {path} is missing; run scripts/claims/few_bits.sh")
    found = {}
    file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    for prompt, policy, budget, value in file.execute(
            "SELECT i.trace, i.policy, i.budget, v.value FROM items i JOIN replay_values v USING (item) "
            "JOIN measures m USING (measure) WHERE m.name = ? ORDER BY i.item", (measure,)):
        found.setdefault((policy, budget), {})[prompt] = float(value)
    return found


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
        sys.exit(f"few_bits.py: {folder}/traces is empty; run scripts/claims/few_bits.sh")
    return statistics.fmean(megabytes), statistics.fmean(shares), len(shares)


def main():
    answer_help(__doc__)
    if len(sys.argv) != 3:
        sys.exit("few_bits.py: takes FOLDER TARGET")
    folder, target = Path(sys.argv[1]), Path(sys.argv[2])
    measured = {}
    for name in ("bits", "entries"):
        answers, far = (values_of(folder / f"{name}.sqlite", f"answer_{one}") for one in ("found", "hidden_distance"))
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
    page = target.read_text(encoding="utf-8")
    beside = target.with_suffix(".part")
    beside.write_text(replace_section(page, text, HEADING), encoding="utf-8")
    beside.replace(target)


if __name__ == "__main__":
    main()
