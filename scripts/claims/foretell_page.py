#!/usr/bin/env python3
"""Writes the section "Which number foretells the answers" of a page from the studies of scripts/claims/foretell.sh.

    scripts/claims/foretell_page.py FOLDER TARGET [KVLOUPE]
    scripts/claims/foretell_page.py FOLDER TARGET KVLOUPE --demo     from the study of scripts/claims/foretell-demo.sh

Reads FOLDER/results-KIND.sqlite of each kind of prompts; the tables are those of kvloupe study foretell, without the signs of percent. The rest of TARGET
stays as it is. For the real model it also writes analysis/measure/foretold_answers.cpp, the program's words about its measures.
"""
import math
import re
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path

from blame import by_policy, of_budgets, replace_section, table, wilson
from usage import answer_help

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


def values(path):
    """{(policy, budget): {measure: [values over prompts]}} of all that is done."""
    rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute(
        "SELECT i.policy, i.budget, m.name, v.value FROM items i JOIN replay_values v USING (item) "
        "JOIN measures m USING (measure) WHERE i.state = 'done'")
    found = {}
    for policy, budget, measure, value in rows:
        found.setdefault((policy, budget), {}).setdefault(measure, []).append(value)
    return found


def settings_table(studies):
    first = next(iter(studies.values()))
    settings = sorted(first, key=lambda one: (one[0] != "full", one[0], one[1]))
    head = [of_budgets(settings)]
    for kind in studies:
        head += [f"{kind}: answered, %", "change of the residual stream", "worst layer"]

    def cells(policy, budget):
        row = []
        for study in studies.values():
            own = study.get((policy, budget), {})
            answered = own.get("answer_found", [])
            row.append(wilson(sum(value == 1 for value in answered), len(answered)).replace(" %", "") if answered else "–")
            row += [f"{statistics.fmean(own[name]):.3f}" if own.get(name) else "–" for name in BEST]
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
#include "analysis/measure/foretold_answers.h"

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


def main():
    answer_help(__doc__)
    demo = "--demo" in sys.argv
    given = [a for a in sys.argv[1:] if a != "--demo"]
    folder, target = Path(given[0]), Path(given[1])
    program = given[2] if len(given) > 2 else "build/bin/kvloupe"
    studies, tables, printed_of = {}, [], {}
    for kind, words in (DEMO_KINDS if demo else KINDS).items():
        results = folder / f"results-{kind}.sqlite"
        printed = subprocess.run([program, "study", "foretell", "answer_found", str(results)], check=True,
                                 capture_output=True, text=True, encoding="utf-8").stdout
        printed_of[kind] = printed
        printed = printed.strip().replace(" % [", " [")
        tables.append(f"**{kind}**: {words}.\n" + (best(printed) if demo else printed))
        studies[kind] = values(results)
    if not demo:
        write_catalogue(printed_of, Path(__file__).resolve().parents[2] / "analysis/measure/foretold_answers.cpp")
    joined = "\n\n".join(tables)
    text = f"""{HEADING}

Which numbers of a replay go with the answers of the running model? {OF_DEMO if demo else OF_REAL}, eight policies
at three budgets: each is replayed on the full run's trace, and run in the model. *ρ over settings* compares the mean of a
measure with the share of prompts answered, over policies and budgets; the shares, in percent, say how often the right run has
the better value, in pairs of a right and a wrong run. Brackets: 95 % intervals
([how](study-results.md#which-number-foretells)).

{joined}

{"" if demo else SHOWN}Means of each setting over all prompts (`full` is the full cache, which is not always right either):

{settings_table(studies)}

    scripts/foretell{"-demo" if demo else ""}.sh
"""
    page = target.read_text(encoding="utf-8") if target.exists() else "# Results on a real model\n"
    target.write_text(replace_section(page, text, HEADING), encoding="utf-8")


if __name__ == "__main__":
    main()
