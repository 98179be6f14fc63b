#!/usr/bin/env python3
"""Writes docs/claims.md from the results of scripts/claims/claims.sh.

    scripts/claims/claims_page.py FOLDER TARGET [STORE]

Each row of ROWS (claims_rows.py) is one number per prompt, computed from FOLDER/STUDY.sqlite, and the side of a threshold
on which the claim puts its mean. Interval and verdict: see the page. STORE is a folder of what earlier runs computed
(STUDY.json.gz): its prompts count, too, and those of FOLDER are added to it.
"""
import itertools
import json
import os
import statistics

from claims_rows import ROWS, TASKS
from claims_study import Kept, Study, read_store, write_store
from claims_verdict import SAME, verdict, written
from claims_why import above_chance, looked_into
from pages import fail, script, table, write


def checked(folder, studies, store):
    """The table of what scripts/claims/claims_check.py computed a second time; empty without its file."""
    path = folder / "check.json"
    check, rows = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else read_store(store and store / "check.json.gz"), []
    if not check:
        return ""
    if store:
        write_store(store / "check.json.gz", check)
    again = check["rows"]
    for _, claim, _, _, name, compute, _, _ in ROWS:
        if claim not in again:
            continue
        ours, theirs = compute(studies[name].of(check["traces"])), again[claim]
        if len(ours) != len(theirs):
            fail(f"{path} has {len(theirs)} numbers for: {claim}; the study has {len(ours)}. "
                     "Run scripts/claims/claims_check.py again")
        # Prompts stand in another order there.
        apart = max(abs(one - other) for one, other in zip(sorted(ours), sorted(theirs)))
        rows.append([claim, f"{statistics.fmean(ours):.6g}", f"{statistics.fmean(theirs):.6g}", f"{apart:.1g}", str(len(theirs))])
    return f"""## Computed a second time

`scripts/claims/claims_check.py` computed these rows with NumPy in float64 from {len(check["traces"])} traces alone. It shares no code with kvloupe.

{table(["claim", "kvloupe", "NumPy", "largest difference of a prompt", "prompts"], rows)}

"""


STUDIES = [  # name, what it measures, command
    ("states", "policies replayed on traces of the full cache, eviction after each block of 128 tokens", "kvloupe study run"),
    ("once", "CriticalKV as its paper has it: one eviction, after the context; ℒ of the tokens after it", "kvloupe study run"),
    ("critical", "the same, on other base scores", "kvloupe study run"),
    ("blocks", "blocks of 32, 64 and 128 tokens and the whole prompt", "kvloupe study run"),
    ("single", "blocks of one token and the whole prompt", "kvloupe study run"),
    ("variants", "anchors, metrics, ways of merging", "kvloupe study run"),
    ("merging", "one merge after the whole prompt, to exactly half of the entries", "kvloupe study run"),
    ("sets", "one merge after the whole prompt, by the threshold alone", "kvloupe study run"),
    ("kept", "which tokens are kept", "claims_kept.py"),
    ("places", "where the needles stand", "claims_places.py"),
    ("needles", "policies in the model, on prompts of needles", "kvloupe-capture study"),
    ("needles-2000", "the same, in 2 000 tokens", "kvloupe-capture study"),
    ("needles-4000", "the same, in 4 000 tokens", "kvloupe-capture study"),
    ("needles-6000", "the same, in 6 000 tokens", "kvloupe-capture study"),
    ("questions", "policies in the model, on questions about 500 tokens of an essay", "kvloupe-capture study"),
    ("several", "the same, on four needles in 500 tokens", "kvloupe-capture study"),
    ("keyvalue", "the same, on lists of words with numbers, 500 tokens", "kvloupe-capture study"),
    ("variables", "the same, on variables in 500 tokens", "kvloupe-capture study"),
    ("chance", "the full cache, on prompts without the link to the answer", "kvloupe-capture study"),
    ("sinks", "policies in the model, loss of 500 tokens of manuals", "kvloupe-capture study"),
    ("firsts", "the same, of manuals with and without the chat template, one first token or four", "kvloupe-capture study"),
    ("code", "the same, of 500 tokens of Python's library", "kvloupe-capture study"),
]


def lines_of(rows):
    """Rows (name, facts, case, ours, verdict) of a paper's table: cases of one name and with the same facts stand below one line,
    which has the words that they share, and … where they differ."""
    lines = []
    for (name, facts), group in itertools.groupby(rows, key=lambda row: row[:2]):
        cases = [row[2:] for row in group]
        if len(cases) == 1:
            cases[0][0] = ", ".join(filter(None, [name, cases[0][0]])) + f" ({facts})"
        else:
            of = [case[0] for case in cases]
            first = os.path.commonprefix(of).rpartition(" ")[0]
            last = os.path.commonprefix([case[len(first):][::-1] for case in of])[::-1]
            last = last[last.find(", "):] if ", " in last else ""
            for case in cases:
                case[0] = case[0][len(first):len(case[0]) - len(last)].strip()
            lines.append([f"**{name}, {first} …{last}** ({facts})".replace("  …", " …"), "", ""])
        lines += cases
    return table(["claim (place: theirs; holds if; prompts × study)", "ours", "verdict"], lines)


def page(folder, store=None):
    studies = {}
    for name, _, command in STUDIES:
        kind, end = (Kept, "json") if command.endswith(".py") else (Study, "sqlite")
        studies[name] = kind(folder / f"{name}.{end}", store and store / f"{name}.json.gz")
    for name, study in studies.items():
        study.place = studies["places"].prompts("place")
        if isinstance(study, Study) and len(study.whole) < 3:
            fail(f"{folder}/{name}.sqlite has {len(study.whole)} whole prompt{'s'[:len(study.whole) - 1]}; intervals "
                     "need three: run scripts/claims/claims.sh with a larger COUNT")
    for name in (name for name in studies if name.startswith("needles") and studies[name].whole - studies["places"].whole):
        fail(f"{folder}/places.json has no place of some prompts of {name}; run scripts/claims/claims_places.py {folder}")
    papers, prompts, verdicts = {}, {}, {}
    left_out = {name for name, _, _ in TASKS if not above_chance(studies, name)}
    for paper, claim, place, theirs, name, compute, side, threshold in ROWS:
        if name in left_out:
            continue
        numbers = compute(studies[name])
        if not numbers:
            fail(f"{folder} has no values of the study {name} for: {claim}; run scripts/claims/claims.sh again")
        says = verdict(numbers, side, threshold)[2]
        of, _, case = claim.partition(", ")
        facts = f"{place}: {theirs}; {side} {threshold:g}; {len(numbers)} × `{name}`"
        papers.setdefault(paper, []).append([of, facts, case, written(numbers), says])
        prompts[name] = len(studies[name].whole) if name != "kept" else max(len(numbers), prompts.get(name, 0))
        verdicts[says] = verdicts.get(says, 0) + 1
    tables = "\n\n".join(f"## {paper}\n\n{lines_of(rows)}" for paper, rows in papers.items())
    commands = [[f"`{name}`", what, str(prompts.get(name, len(studies[name].whole))), f"`{command}`"] for name, what, command in STUDIES]
    texts = looked_into(studies), checked(folder, studies, store)
    if store:
        for name, study in studies.items():
            write_store(store / f"{name}.json.gz", study.stored())
    return f"""# The papers' claims on a real model

Which claims of KeyDiff, CriticalKV, CAOTE and KVMerger hold for SmolLM2-135M-Instruct, on a needle in some 1 000 tokens of
manuals and on [four other tasks](#looked-into), blocks of 128 tokens? {sum(verdicts.values())} rows: {verdicts.get("holds", 0)} hold,
{verdicts.get("does not hold here", 0)} do not hold here, {verdicts.get("cannot be told", 0)} cannot be told. The papers' models (3 to 13 thousand million
parameters) are 20 to 100 times as large, and their prompts have many thousand tokens: a claim that does not hold here may
hold there.

*Ours* is the mean over prompts with its 95 % interval (Student's t; differences are paired). *Holds if*: the claim puts the
mean on this side of a threshold. It **holds** if the whole interval is on that side, and **does not hold here** if the whole
interval is on the other side; otherwise it **cannot be told**. If all prompts have the same number, its side decides, from
{SAME} prompts on. Of a hundred rows without effect some five would have a verdict: read the numbers. *Answer's change* is the
measure `answer_residual_change` ([measures.md](measures.md)); its *rise* is that from the whole prompt as one block to
smaller blocks. *Early* needles stand in the first three quarters of the prompt. *Two stages*: CriticalKV's.

{tables}

## Looked into

{texts[0]}

{texts[1]}## How it was made

`scripts/claims/claims.sh` makes the prompts, the traces, all studies and this page; `scripts/claims/claims_prompts.py` says where the texts
come from. The numbers behind all rows, one per prompt, are in
[assets/results/claims](../assets/results/claims): the page can be made from them alone, and prompts that another run adds count with them. A study is made
by the program in the table: `build/bin/PROGRAM {folder}/STUDY.json -o {folder}/STUDY.sqlite`, or `scripts/claims/PROGRAM
{folder}`.

    scripts/claims/claims.sh 100 {folder}      # makes this page
    build/bin/kvloupe study summary {folder}/states.sqlite      # the means behind a study's rows

{table(["study", "measures", "prompts", "program"], commands)}

In `states` and in the model, policies evict after each block, CriticalKV too, although its paper evicts once, after the prompt.
CriticalKV's 92 % are heads by their mean over all samples, for the first new token; here heads are counted in each prompt, by
their mean over the tokens after the context. KeyDiff's and CAOTE's budgets are counts of entries; here they are shares of the
prompt. H2O, TOVA, SnapKV and StreamingLLM are baselines of the papers; their rows are facts that others report.
"""


@script(__doc__)
def main(folder, target, store=None):
    if store:
        store.mkdir(parents=True, exist_ok=True)
    write(target, page(folder, store))
