#!/usr/bin/env python3
"""Writes the prompts of a study that the full cache answers and a policy does not.

    scripts/claims/missed_prompts.py FOLDER KIND POLICY BUDGET MOST

Reads FOLDER/results-KIND.sqlite and FOLDER/KIND.jsonl, writes FOLDER/missed.jsonl (at most MOST lines of it) and
FOLDER/missed.txt (the answers, a line each).
"""
import json

from pages import opened, script, write


@script(__doc__)
def main(folder, kind, policy, budget, most):
    rows = opened(folder / f"results-{kind}.sqlite", "foretell.sh").execute(
        "SELECT t.name, i.policy, i.budget, v.value FROM items i JOIN traces t USING (trace) "
        "JOIN replay_values v USING (item) JOIN measures m USING (measure) WHERE m.name = 'answer_found'")
    found = {(name.rpartition("#")[2], own, entries): value
             for name, own, entries, value in rows if f"{kind}.jsonl#" in name}
    lines = (folder / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    missed = [line for number, line in enumerate(lines) if found.get((f"{number}", "full", "full")) == 1
              and found.get((f"{number}", str(policy), str(budget))) == 0][:int(str(most))]
    write(folder / "missed.jsonl", "".join(line + "\n" for line in missed))
    write(folder / "missed.txt", "".join(json.loads(line)["outputs"][0] + "\n" for line in missed))
