#!/usr/bin/env python3
"""Prints the rows of an evaluation with needles that its policy missed and the full cache found: missed_rows.py RESULTS MOST"""
import json

from pages import script


def case(run):
    return run["length"], run["depth"], run["sample"]


@script(__doc__)
def main(results, most):
    runs = json.loads(results.read_text(encoding="utf-8"))["runs"]
    found = {case(run) for run in runs if run["policy"] == "full" and run["correct"]}
    rows = [row for row, run in enumerate(runs) if run["policy"] != "full" and not run["correct"] and case(run) in found]
    print(*rows[:int(str(most))])
