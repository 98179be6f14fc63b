#!/usr/bin/env python3
"""Writes the prompts of a study that the full cache answers and a policy does not.

    scripts/claims/missed_prompts.py FOLDER KIND POLICY BUDGET MOST

Reads FOLDER/results-KIND.sqlite and FOLDER/KIND.jsonl, writes FOLDER/missed.jsonl (at most MOST lines of it) and
FOLDER/missed.txt (the answers, a line each).
"""
import json
import sqlite3
import sys
from pathlib import Path

from usage import answer_help


def main():
    answer_help(__doc__)
    folder, kind, policy, budget, most = Path(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5])
    rows = sqlite3.connect(folder / f"results-{kind}.sqlite").execute(
        "SELECT t.name, i.policy, i.budget, v.value FROM items i JOIN traces t USING (trace) "
        "JOIN replay_values v USING (item) JOIN measures m USING (measure) WHERE m.name = 'answer_found'")
    found = {(name.rpartition("#")[2], own, entries): value
             for name, own, entries, value in rows if f"{kind}.jsonl#" in name}
    lines = (folder / f"{kind}.jsonl").read_text(encoding="utf-8").splitlines()
    missed = [line for number, line in enumerate(lines)
              if found.get((f"{number}", "full", "full")) == 1 and found.get((f"{number}", policy, budget)) == 0][:most]
    (folder / "missed.jsonl").write_text("".join(line + "\n" for line in missed), encoding="utf-8")
    (folder / "missed.txt").write_text("".join(json.loads(line)["outputs"][0] + "\n" for line in missed),
                                       encoding="utf-8")


if __name__ == "__main__":
    main()
