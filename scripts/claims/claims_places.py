#!/usr/bin/env python3
"""Writes where the needle stands in each prompt of scripts/claims/claims.sh, as FOLDER/places.json.

    scripts/claims/claims_places.py FOLDER

A place is the share of the prompt's characters before the needle: 0 the first, 1 the last.
"""
import json
import sys
from pathlib import Path

from claims_study import plain_name
from usage import answer_help


def places(folder):
    """{prompt: place} of FOLDER/prompts/needle-LENGTH*.jsonl."""
    found = {}
    for path in sorted((folder / "prompts").glob("needle-[0-9]*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            try:
                prompt = json.loads(line)
                place = prompt["input"].index(prompt["needle"]) / len(prompt["input"])
            except (ValueError, TypeError, LookupError):
                sys.exit(f"claims_places.py: {path}, line {number + 1} is not a prompt with its needle; delete the file and run scripts/claims/claims.sh")
            found[plain_name(f"{path.name}#{number}")] = place
    return found


def main():
    answer_help(__doc__)
    if len(sys.argv) != 2:
        sys.exit("claims_places.py: takes FOLDER")
    folder = Path(sys.argv[1])
    found = places(folder)
    if not found:
        sys.exit(f"claims_places.py: {folder}/prompts has no needles; run scripts/claims/claims.sh")
    beside = folder / "places.part"
    beside.write_text(json.dumps({"place": found}), encoding="utf-8")
    beside.replace(folder / "places.json")


if __name__ == "__main__":
    main()
