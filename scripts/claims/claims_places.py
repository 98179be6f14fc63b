#!/usr/bin/env python3
"""Writes where the needle stands in each prompt of scripts/claims/claims.sh, as FOLDER/places.json.

    scripts/claims/claims_places.py FOLDER

A place is the share of the prompt's characters before the needle: 0 the first, 1 the last.
"""
import json

from claims_study import plain_name
from pages import fail, script, write


def places(folder):
    """{prompt: place} of FOLDER/prompts/needle-LENGTH*.jsonl."""
    found = {}
    for path in sorted((folder / "prompts").glob("needle-[0-9]*.jsonl")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            try:
                prompt = json.loads(line)
                place = prompt["input"].index(prompt["needle"]) / len(prompt["input"])
            except (ValueError, TypeError, LookupError):
                fail(f"{path}, line {number + 1} is not a prompt with its needle; delete the file and run scripts/claims/claims.sh")
            found[plain_name(f"{path.name}#{number}")] = place
    return found


@script(__doc__)
def main(folder):
    found = places(folder)
    if not found:
        fail(f"{folder}/prompts has no needles; run scripts/claims/claims.sh")
    write(folder / "places.json", json.dumps({"place": found}))
