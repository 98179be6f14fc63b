#!/usr/bin/env python3
"""Writes the section "Which number foretells the answers" of a page from the studies of scripts/claims/foretell.sh.

    scripts/claims/foretell_page.py FOLDER TARGET [KVLOUPE]
    scripts/claims/foretell_page.py FOLDER TARGET KVLOUPE --demo     from the study of scripts/claims/foretell.sh --demo

Reads FOLDER/results-KIND.sqlite of each kind of prompts; the tables are those of kvloupe study foretell, without the signs of percent. The rest of TARGET
stays as it is. For the real model it also writes analysis/replay/measure/foretold_answers.cpp, the program's words about its measures.
"""
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path

from pages import by_policy, of_budgets, put_section, script, table, values_of, wilson

HEADING = "## Which number foretells the answers"
BEST = ("answer_residual_change", "answer_worst_layer_error")
KINDS = {
    "needles": "three sentences such as *The secret code of the harbour is 4711.* in an essay, and a question for one of the numbers",
    "things": "three sentences such as *Anna told everyone that the best thing in the world is jazz.*, and a question in other words",
}

DEMO_KINDS = {
    "one": "one number hidden in made-up text, and a question for it",
    "four": "four numbers, and a question for one of them",
}
OF_REAL = "SmolLM2-135M-Instruct, prompts of some 600 tokens in blocks of 128"
OF_DEMO = "The demo model, prompts of some 500 tokens in blocks of 64"
SHOWN = """The window's first read-out, the figure `overview` and the budget curve show `answer_residual_change`, and the grid each head's part of it.

"""


def settings_table(results):
    """results: {kind: results file}"""
    names = ("answer_found", *BEST)
    studies = {kind: {name: values_of(path, name, "foretell.sh") for name in names} for kind, path in results.items()}
    settings = sorted(next(iter(studies.values()))["answer_found"], key=lambda one: (one[0] != "full", one[0], one[1]))
    head = [of_budgets(settings)]
    for kind in studies:
        head += [f"{kind}: answered, %", "change of the residual stream", "worst layer"]

    def cells(*setting):
        row = []
        for study in studies.values():
            answered, *best = (list(study[name].get(setting, {}).values()) for name in names)
            row.append(wilson(sum(value == 1 for value in answered), len(answered), "") if answered else "–")
            row += [f"{statistics.fmean(own):.3f}" if own else "–" for own in best]
        return row
    return table(head, by_policy(settings, cells))


def best(printed, count=10):
    """The table with its first rows alone; kvloupe study foretell prints all of them."""
    lines = printed.split("\n")
    rows = [at for at, line in enumerate(lines) if line.startswith("| `")]
    gone = set(rows[count:])
    return "\n".join(line for at, line in enumerate(lines) if at not in gone) + f"\n\nThe best {count} of {len(rows)}."


def write_catalogue(tables, path):
    """The ρ of every measure in each study, as C++; the best by the smaller one first."""
    found = {}
    for kind, text in tables.items():
        for measure, rho in re.findall(r"^\| `(\w+)` \| ([-−]?[\d.]+)", text, flags=re.M):
            found.setdefault(measure, {})[kind] = float(rho.replace("−", "-"))
    least = lambda rhos: min(rhos.get(kind, math.inf) for kind in KINDS)
    rows = sorted(found.items(), key=lambda one: (-least(one[1]), one[0]))
    number = lambda rhos, kind: f"{rhos[kind]:.2f}" if kind in rhos else "kUnknown"
    lines = [f'      {{"{measure}", {number(rhos, "needles")}, {number(rhos, "things")}}},\n' for measure, rhos in rows]
    counts = {kind: re.search(r"^(\d+) prompts .*?(\d+) settings", text, flags=re.M).groups() for kind, text in tables.items()}
    study = f"  return {{.needles = {counts['needles'][0]}, .things = {counts['things'][0]}, .settings = {counts['needles'][1]}}};\n"
    path.write_text("""// Written by scripts/claims/foretell_page.py from the results of scripts/claims/foretell.sh. Do not edit.
#include "analysis/replay/measure/foretold_answers.h"

#include <limits>

namespace kvloupe {

ForetoldStudy foretold_study() {
""" + study + """}

const std::vector<ForetoldAnswers>& foretold_answers() {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  static_cast<void>(kUnknown);
  static const std::vector<ForetoldAnswers> all = {
""" + "".join(lines) + """  };
  return all;
}

}  // namespace kvloupe
""", encoding="utf-8")


@script(__doc__)
def main(folder, target, program="build/bin/kvloupe"):
    demo = "--demo" in sys.argv
    results, tables, printed_of = {}, [], {}
    for kind, words in (DEMO_KINDS if demo else KINDS).items():
        results[kind] = folder / f"results-{kind}.sqlite"
        printed = subprocess.run([program, "study", "foretell", "answer_found", results[kind]], check=True,
                                 capture_output=True, text=True, encoding="utf-8").stdout
        printed_of[kind] = printed
        printed = printed.strip().replace(" % [", " [")
        tables.append(f"**{kind}**: {words}.\n" + (best(printed) if demo else printed))
    if not demo:
        write_catalogue(printed_of, Path(__file__).resolve().parents[2] / "analysis/replay/measure/foretold_answers.cpp")
    joined = "\n\n".join(tables)
    text = f"""{HEADING}

Which numbers of a replay go with the answers of the running model? {OF_DEMO if demo else OF_REAL}, eight policies
at three budgets: each is replayed on the full run's trace, and run in the model. *ρ over settings* compares the mean of a
measure with the share of prompts answered, over policies and budgets; the shares, in percent, say how often the right run has
the better value, in pairs of a right and a wrong run. Brackets: 95 % intervals
([how](study-results.md#which-number-foretells)).

{joined}

{"" if demo else SHOWN}Means of each setting over all prompts (`full` is the full cache, which is not always right either):

{settings_table(results)}

    scripts/claims/foretell.sh{" --demo" if demo else ""}
"""
    put_section(target, text, HEADING)
