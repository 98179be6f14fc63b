"""Numbers per prompt from the results of the claims' studies (see claims_page.py)."""
import copy
import gzip
import json
import re
import sqlite3
import statistics
import zlib

from pages import fail, ranks

LATE = 0.75  # from this place on a needle is late: a quarter of the cache holds it if only recent tokens stay


class Kept:
    """What scripts/claims/claims_kept.py or claims_places.py wrote: {number: {prompt: value}}; with what earlier runs left in STORE."""

    def __init__(self, path, store=None):
        self.numbers = read_store(store)
        if path.is_file():
            for number, values in read_json(path).items():
                self.numbers.setdefault(number, {}).update({plain_name(one): value for one, value in values.items()})
        elif not self.numbers:
            fail(f"{path} is missing; run scripts/claims/claims.sh")

    def prompts(self, number):
        """{prompt: value}"""
        return self.numbers.get(number, {})

    @property
    def whole(self):
        """The prompts of any number."""
        return set().union(*self.numbers.values())

    def stored(self):
        return self.numbers


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as why:
        fail(f"{path} is not JSON ({why}); delete it and run scripts/claims/claims.sh again")


def read_store(path):
    """What an earlier page left at path; empty without a file."""
    if path is None or not path.is_file():
        return {}
    try:
        return json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error) as why:
        fail(f"{path} is damaged ({why}); take it from the repository again")


def plain_name(name):
    """The name of a prompt wherever its run began: needle-1000-from30.jsonl#2 is needle-1000.jsonl#32, and so with traces."""
    name = name.rsplit("/", 1)[-1]
    part = re.fullmatch(r"(.*?)-from(\d+)(\.jsonl#|-)(\d+)(\.h5|)", name)
    if not part:
        return name
    width = len(part[4]) if part[5] else 0
    return f"{part[1]}{part[3]}{int(part[2]) + int(part[4]):0{width}}{part[5]}"


def digits(value):
    """Six digits are more than any interval needs."""
    return None if value is None else float(f"{value:.6g}")


class Study:
    """The values of one study: those of its results file at path, and those that earlier runs left in STORE. A prompt is known by its
    plain name; what the results file says of it goes before what the store says."""

    def __init__(self, path, store=None):
        stored = read_store(store)
        self.store = {kind: {tuple(one["of"]): one["values"] for one in stored.get(kind, [])} for kind in ("prompts", "heads")}
        self.shape = stored.get("shape", [])
        self.whole = set(stored.get("whole", []))
        self.asked = {"prompts": {}, "heads": {}}
        self.rows, self.names = None, {}
        if not path.is_file():
            if not self.whole:
                fail(f"{path} is missing; run scripts/claims/claims.sh")
            return
        self.rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            every, left_out = (set(trace for trace, in self.rows.execute(f"SELECT DISTINCT trace FROM items {where}"))
                               for where in ("", "WHERE state != 'done'"))
            self.names = {trace: plain_name(name) for trace, name in self.rows.execute("SELECT trace, name FROM traces")}
        except sqlite3.DatabaseError as why:
            fail(f"{path} is not a results file ({why}); delete it and run scripts/claims/claims.sh again")
        # A study may be read before its end: prompts of which some items are still to do would not be paired.
        self.names = {trace: name for trace, name in self.names.items() if trace in every - left_out}
        if not self.names and not self.whole:
            fail(f"{path} has no prompt with all its items done; run scripts/claims/claims.sh again")
        self.whole |= set(self.names.values())

    def of(self, names):
        """The same results, of the traces with these file names only."""
        part = copy.copy(self)
        part.whole = self.whole & {plain_name(name) for name in names}
        return part

    def part(self, word):
        """The same results, of the prompts whose names have this word."""
        part = copy.copy(self)
        part.whole = {name for name in self.whole if word in name}
        return part

    def results(self, query, asked):
        """Rows of the results file; without one, none."""
        return self.rows.execute(query, asked) if self.rows else ()

    def heads(self, measure, policy, budget, block=None):
        """{prompt: {(layer, head): value}}, known values only, of prompts with all their items."""
        key, found = (measure, policy, budget, block), {}
        for name, values in self.store["heads"].get(key, {}).items():
            if name in self.whole:
                found[name] = {tuple(head): value for head, value in zip(self.shape, values) if value is not None}
        again = set()
        for trace, layer, head, value in self.results(
                "SELECT i.trace, h.layer, h.head, h.value FROM items i JOIN head_values h USING (item) JOIN measures m "
                "USING (measure) WHERE m.name = ? AND i.policy = ? AND i.budget = ? AND coalesce(?, i.block) = i.block", key):
            name = self.names.get(trace)
            if value is None or name not in self.whole:
                continue
            if name not in again:
                again.add(name)
                found[name] = {}
            found[name][layer, head] = value
        self.asked["heads"].setdefault(key, {}).update(found)
        return found

    def prompts(self, measure, policy, budget, block=None):
        """{prompt: value}; without a block, of a study that has one."""
        key = (measure, policy, budget, block)
        found = {name: value for name, value in self.store["prompts"].get(key, {}).items() if name in self.whole}
        found.update({self.names[trace]: value for trace, value in self.results(
            "SELECT i.trace, v.value FROM items i JOIN replay_values v USING (item) JOIN measures m USING (measure) "
            "WHERE m.name = ? AND i.policy = ? AND i.budget = ? AND coalesce(?, i.block) = i.block", key)
            if value is not None and self.names.get(trace) in self.whole})
        self.asked["prompts"].setdefault(key, {}).update(found)
        return found

    def answered(self):
        """The prompts that the full cache answers."""
        return {prompt for prompt, found in self.prompts("answer_found", "full", "full").items() if found == 1}

    def stored(self):
        """All that was asked so far, as a store keeps it. Prompts of which a value asked was never computed are in `whole` all the same."""
        shape = sorted({head for of in self.asked["heads"].values() for heads in of.values() for head in heads})
        return {"whole": sorted(self.whole), "shape": shape,
                "prompts": [{"of": key, "values": {name: digits(value) for name, value in sorted(values.items())}}
                            for key, values in self.asked["prompts"].items()],
                "heads": [{"of": key, "values": {name: [digits(heads.get(head)) for head in shape] for name, heads in sorted(values.items())}}
                          for key, values in self.asked["heads"].items()]}


def write_store(path, stored):
    """Beside, then renamed; equal numbers give equal bytes."""
    beside = path.with_suffix(".part")
    beside.write_bytes(gzip.compress(json.dumps(stored, ensure_ascii=False, separators=(",", ":")).encode(), 9, mtime=0))
    beside.replace(path)


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


def found_early(study, policy, other, budget):
    """The same, of the needles that stand in the first three quarters of the prompt. study.place: {prompt: where its needle stands}."""
    first, second = (study.prompts("answer_found", one, budget) for one in (policy, other))
    return [first[prompt] - second[prompt] for prompt in sorted(first.keys() & second.keys() & study.answered())
            if study.place[prompt] < LATE]


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
