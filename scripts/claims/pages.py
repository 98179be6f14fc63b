"""What the scripts of this folder share: arguments, tables, intervals, results files, and pages that are written whole."""
import math
import random
import re
import sqlite3
import statistics
import sys
from pathlib import Path

NAME = Path(sys.argv[0]).name


def fail(line):
    sys.exit(f"{NAME}: {line}")


def script(doc):
    """Of the last function of a script: runs it with the arguments that the docstring names, as in `x.py FOLDER TARGET [STORE]`,
    unless the script is imported. --help prints the docstring; an option that it does not name ends the script, before it takes
    the option for a file's name."""
    def run(main):
        if main.__module__ != "__main__":
            return main
        asked = re.search(r"\w+\.py((?: \[*[A-Z]+\]*)*)", doc)[1]
        for argument in sys.argv[1:]:
            if argument in ("-h", "--help"):
                print(doc.strip())
                sys.exit(0)
            if argument.startswith("-") and argument not in doc.split():
                fail(f"unknown option {argument}; see scripts/claims/{NAME} --help")
        given = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
        if not sum("[" not in word for word in asked.split()) <= len(given) <= len(asked.split()):
            fail(f"takes{asked}")
        return main(*map(Path, given))
    return run


def write(path, text):
    """Beside, then renamed."""
    beside = path.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def put_section(path, new, heading):
    """Writes the section under this heading in place of the old one, or at the end of the page."""
    text = path.read_text(encoding="utf-8") if path.exists() else "# Results on a real model\n"
    at = text.find(heading)
    after = text.find("\n## ", at)
    write(path, text.rstrip("\n") + "\n\n" + new if at < 0 else text[:at] + new + ("" if after < 0 else text[after:]))


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] + ["---:"] * (len(head) - 1)) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def by_policy(settings, cells_of):
    """Rows of a table, one per policy of the settings (policy, budget): a cell has the numbers of all budgets, in their order."""
    rows = []
    for policy in dict.fromkeys(policy for policy, _ in settings):
        columns = zip(*(cells_of(policy, budget) for own, budget in settings if own == policy))
        rows.append([f"`{policy}`"] + [(" / " if any(" " in cell for cell in column) else "/").join(column) for column in columns])
    return rows


def of_budgets(settings):
    """The head of the first column of such rows."""
    return "policy, at " + "/".join(dict.fromkeys(budget for _, budget in settings if budget != "full"))


def signed(number, form="+.2f"):
    return f"{number:{form}}".replace("-", "−")


def wilson_interval(hits, count):
    """Both ends of a share's 95 % interval (Wilson's)."""
    z = 1.959964
    share = hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def wilson(hits, count, unit=" %"):
    """A share in percent with its 95 % interval (Wilson's)."""
    low, high = wilson_interval(hits, count)
    return f"{100 * hits / count:.0f}{unit} ({100 * low:.0f} to {100 * high:.0f})"


def resampled(numbers, resamples=2000):
    """The means of so many samples of the numbers, drawn with replacement, ascending."""
    chance = random.Random(1)
    return sorted(statistics.fmean(chance.choices(numbers, k=len(numbers))) for _ in range(resamples))


def interval(numbers):
    """Mean and both ends of its 95 % interval, by the bootstrap's quantiles."""
    means = resampled(numbers)
    return statistics.fmean(numbers), means[round(0.025 * (len(means) - 1))], means[round(0.975 * (len(means) - 1))]


def with_interval(numbers, sign=False):
    return "{} [{}, {}]".format(*(f"{one:{'+' if sign else ''}.3f}" for one in interval(numbers)))


def ranks(values):
    """From 1; equal values get the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def spearman(a, b):
    """The rank correlation."""
    a, b = ranks(a), ranks(b)
    mean = (len(a) + 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    return product / math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))


def opened(path, made_by):
    """A results file (docs/studies.md), to read."""
    if not path.is_file():
        fail(f"{path} is missing; run scripts/claims/{made_by}")
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


def values_of(path, measure, made_by):
    """{(policy, budget): {trace: value}} of a results file; the full cache's budget is "full"."""
    found = {}
    for trace, policy, budget, value in opened(path, made_by).execute(
            "SELECT i.trace, i.policy, i.budget, v.value FROM items i JOIN replay_values v USING (item) "
            "JOIN measures m USING (measure) WHERE m.name = ? ORDER BY i.item", (measure,)):
        found.setdefault((policy, budget), {})[trace] = value
    return found
