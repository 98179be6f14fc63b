#!/usr/bin/env python3
"""Which tokens policies keep, for rows of docs/claims.md.

    scripts/claims/claims_kept.py FOLDER

Replays policies on FOLDER/traces/*.h5 with build/bin/kvloupe and writes FOLDER/kept.json: {number: {trace: value}}. A trace
that the file has is not replayed again. Sets are those after the prompt's last block, at 20 % of the prompt.

    POLICY BLOCK token 0      share of the heads that rest on token 0 (mean attention above 0.3) in which it is kept
    POLICY BLOCK place        mean place of the kept tokens in the prompt, mean of the heads: 0 the first, 1 the last
    POLICY BLOCK needle       share of the needle's tokens that are kept, mean of the heads
    POLICY BLOCK last         share of the prompt's last 32 tokens that are kept, mean of the heads
    POLICY BLOCK overlap      Jaccard index with the set of one decision after the whole prompt, mean of the heads
"""
import json
import statistics
import subprocess
from pathlib import Path

from pages import fail, script, write

PROGRAM = Path(__file__).resolve().parents[2] / "build/bin/kvloupe"
POLICIES = ("keydiff", "tova", "snapkv", "h2o")
BLOCKS = ("1", "32", "128", "all")
LAST = 32  # tokens of the prompt, in which its question stands


def told(verb, trace, *words):
    """The JSON that kvloupe writes about a trace."""
    done = subprocess.run([PROGRAM, verb, trace, *words], capture_output=True, text=True)
    if done.returncode:
        fail(f"{trace}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def replay(trace, policy, block, *more):
    return told("replay", trace, "--policy", policy, "--budget", "20%", "--block", block, "--json", "-", *more)


def prompt_of(trace):
    """(length of the prompt, tokens of the needle)"""
    info = told("info", trace, "--json")
    return info["run"]["prompt_length"], {token for part in info["segments"] if part["name"] == "needle"
                                          for token in range(part["first"], part["end"])}


def numbers_of(trace):
    (length, needle), found = prompt_of(trace), {}
    resting = {(head["layer"], head["head"]) for head in replay(trace, "keydiff", "128", "--measures", "role_sink")["heads"]
               if head["measures"]["role_sink"] > 0.3}
    for policy in POLICIES:
        whole = None
        for block in reversed(BLOCKS):
            last = 0 if block == "all" else (length - 1) // int(block)  # step of the prompt
            sets = {(head["layer"], head["head"]): set(head["steps"][last]["retained"])
                    for head in replay(trace, policy, block, "--measures", "none")["heads"]}
            whole = whole or sets
            if block == "128":
                found[f"{policy} {block} token 0"] = statistics.fmean(0 in sets[one] for one in resting) if resting else None
                found[f"{policy} {block} place"] = statistics.fmean(
                    statistics.fmean(kept) / (length - 1) for kept in sets.values())
                found[f"{policy} {block} needle"] = statistics.fmean(len(kept & needle) / len(needle) for kept in sets.values()) if needle else None
            end = range(max(length - LAST, 0), length)
            found[f"{policy} {block} last"] = statistics.fmean(len(kept.intersection(end)) / len(end) for kept in sets.values())
            if block != "all":
                found[f"{policy} {block} overlap"] = statistics.fmean(len(kept & whole[one]) / len(kept | whole[one])
                                                                      for one, kept in sets.items())
    return found


@script(__doc__)
def main(folder):
    traces = sorted((folder / "traces").glob("*.h5"))
    if not traces:
        fail(f"{folder}/traces has no traces; run scripts/claims/claims.sh")
    target = folder / "kept.json"
    rows = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {}
    for trace in traces:
        if any(trace.name in of for of in rows.values()):
            continue
        for number, value in numbers_of(trace).items():
            if value is not None:
                rows.setdefault(number, {})[trace.name] = value
        write(target, json.dumps(rows, indent=1) + "\n")
