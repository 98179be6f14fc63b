"""Numbers per prompt from the results of the claims' studies (see claims_page.py)."""
import copy
import json
import sqlite3
import statistics
import sys


class Kept:
    """What scripts/claims_kept.py wrote: {number: {prompt: value}}."""

    def __init__(self, path):
        if not path.is_file():
            sys.exit(f"claims_page.py: {path} is missing; run scripts/claims.sh")
        try:
            self.numbers = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as why:
            sys.exit(f"claims_page.py: {path} is not JSON ({why}); delete it and run scripts/claims.sh again")

    def prompts(self, number):
        """{prompt: value}"""
        return self.numbers.get(number, {})


class Study:
    def __init__(self, path):
        if not path.is_file():
            sys.exit(f"claims_page.py: {path} is missing; run scripts/claims.sh")
        self.rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            every, left_out = (set(trace for trace, in self.rows.execute(f"SELECT DISTINCT trace FROM items {where}"))
                               for where in ("", "WHERE state != 'done'"))
        except sqlite3.DatabaseError as why:
            sys.exit(f"claims_page.py: {path} is not a results file ({why}); delete it and run scripts/claims.sh again")
        # A study may be read before its end: prompts of which some items are still to do would not be paired.
        self.whole = every - left_out
        if not self.whole:
            sys.exit(f"claims_page.py: {path} has no prompt with all its items done; run scripts/claims.sh again")

    def of(self, names):
        """The same results, of the traces with these file names only."""
        part = copy.copy(self)
        part.whole = {trace for trace, name in self.rows.execute("SELECT trace, name FROM traces")
                      if trace in self.whole and name.rsplit("/", 1)[-1] in names}
        return part

    def part(self, word):
        """The same results, of the prompts whose names have this word."""
        part = copy.copy(self)
        part.whole = {trace for trace, name in self.rows.execute("SELECT trace, name FROM traces") if trace in self.whole and word in name}
        return part

    def heads(self, measure, policy, budget, block=None):
        """{prompt: {(layer, head): value}}, known values only, of prompts with all their items."""
        found = {}
        for trace, layer, head, value in self.rows.execute(
                "SELECT i.trace, h.layer, h.head, h.value FROM items i JOIN head_values h USING (item) JOIN measures m "
                "USING (measure) WHERE m.name = ? AND i.policy = ? AND i.budget = ? AND coalesce(?, i.block) = i.block",
                (measure, policy, budget, block)):
            if value is not None and trace in self.whole:
                found.setdefault(trace, {})[layer, head] = value
        return found

    def prompts(self, measure, policy, budget, block=None):
        """{prompt: value}; without a block, of a study that has one."""
        return {trace: value for trace, value in self.rows.execute(
            "SELECT i.trace, v.value FROM items i JOIN replay_values v USING (item) JOIN measures m USING (measure) "
            "WHERE m.name = ? AND i.policy = ? AND i.budget = ? AND coalesce(?, i.block) = i.block",
            (measure, policy, budget, block)) if value is not None and trace in self.whole}


    def answered(self):
        """The prompts that the full cache answers."""
        return {prompt for prompt, found in self.prompts("answer_found", "full", "full").items() if found == 1}


def mean(study, measure, policy="keydiff", budget="20%"):
    return list(study.prompts(measure, policy, budget).values())


def share(study, measure, condition, policy="keydiff", budget="20%", layers=None):
    """The share of heads (of some layers) that meet a condition."""
    found = study.heads(measure, policy, budget).values()
    return [statistics.fmean(condition(value) for (layer, _), value in heads.items() if layers is None or layer in layers)
            for heads in found]


def minus(study, measure, policy, other, budget="20%"):
    """policy − other"""
    first, second = study.prompts(measure, policy, budget), study.prompts(measure, other, budget)
    return [first[prompt] - second[prompt] for prompt in sorted(first.keys() & second.keys())]


def lower(study, measure, policy, other, budget="20%"):
    """The share of heads in which policy has the lower value."""
    first, second = study.heads(measure, policy, budget), study.heads(measure, other, budget)
    return [statistics.fmean(first[p][h] < second[p][h] for h in first[p].keys() & second[p].keys())
            for p in sorted(first.keys() & second.keys())]


def found(study, policy, other, budget):
    """1, 0 or -1: whether policy alone, both or none, or other alone answers; of the prompts that the full cache answers."""
    first, second = (study.prompts("answer_found", one, budget) for one in (policy, other))
    return [first[prompt] - second[prompt] for prompt in sorted(first.keys() & second.keys() & study.answered())]


def less(first, second):
    """first − second, of the prompts that both have."""
    return [first[prompt] - second[prompt] for prompt in sorted(first.keys() & second.keys())]


def lower_if(study, measure, policy, other, condition, budget):
    """As lower, over the heads whose condition (a measure of policy, a test of its value) is met; no prompt without any."""
    first, second = study.heads(measure, policy, budget), study.heads(measure, other, budget)
    name, test = condition
    met = study.heads(name, policy, budget)
    found = []
    for p in sorted(first.keys() & second.keys() & met.keys()):
        heads = [h for h in first[p].keys() & second[p].keys() & met[p].keys() if test(met[p][h])]
        if heads:
            found.append(statistics.fmean(first[p][h] < second[p][h] for h in heads))
    return found


def agreement(study, measure, other_measure, policy, other, budget):
    """The share of heads in which both measures prefer the same of two policies."""
    of = [[study.heads(m, p, budget) for p in (policy, other)] for m in (measure, other_measure)]
    prompts = sorted(set.intersection(*(set(one) for pair in of for one in pair)))
    return [statistics.fmean((of[0][0][p][h] < of[0][1][p][h]) == (of[1][0][p][h] < of[1][1][p][h])
                             for h in set.intersection(*(set(one[p]) for pair in of for one in pair))) for p in prompts]


def ratio(study, measure, policy, other, budget="20%"):
    """|policy / other − 1|"""
    first, second = study.prompts(measure, policy, budget), study.prompts(measure, other, budget)
    return [abs(first[prompt] / second[prompt] - 1) for prompt in sorted(first.keys() & second.keys())]


def rise(study, measure, policy, block, other_block, budget="20%"):
    """{prompt: its value with a block − with another}"""
    first, second = (study.prompts(measure, policy, budget, one) for one in (block, other_block))
    return {prompt: first[prompt] - second[prompt] for prompt in first.keys() & second.keys()}


def ranks(values):
    """From 1; equal values get the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def layer_sums(study, measure, policy, budget="50%"):
    """{prompt: [its sum over the heads of each layer]}"""
    sums = {}
    for prompt, heads in study.heads(measure, policy, budget).items():
        of = sums[prompt] = [0.0] * (1 + max(layer for layer, _ in heads))
        for (layer, _), value in heads.items():
            of[layer] += value
    return sums


def persistence(study, measure, policy, budget="50%"):
    """Spearman's correlation over layers of a prompt's sums with the means of all other prompts'."""
    sums = layer_sums(study, measure, policy, budget)
    found = []
    for prompt, own in sums.items():
        others = [statistics.fmean(column) for column in zip(*(of for one, of in sums.items() if one != prompt))]
        found.append(statistics.correlation(ranks(own), ranks(others)))
    return found
