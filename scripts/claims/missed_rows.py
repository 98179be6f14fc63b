#!/usr/bin/env python3
"""Prints the rows of an evaluation with needles that its policy missed and the full cache found.

usage: missed_rows.py RESULTS.json MOST
"""
import json
import sys

from usage import answer_help

answer_help(__doc__)
runs = json.load(open(sys.argv[1], encoding="utf-8"))["runs"]


def case(run):
    return run["length"], run["depth"], run["sample"]


found = {case(run) for run in runs if run["policy"] == "full" and run["correct"]}
rows = [
    row
    for row, run in enumerate(runs)
    if run["policy"] != "full" and not run["correct"] and case(run) in found
]
print(*rows[: int(sys.argv[2])])
