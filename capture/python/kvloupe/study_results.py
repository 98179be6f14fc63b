"""The results file of a study, written as kvloupe-capture study writes it (docs/studies.md, *The results file*)."""
from __future__ import annotations

import dataclasses
import json
import math
import os
from ctypes import byref, c_void_p
from pathlib import Path
from typing import Any

from . import engine

_COLUMNS = ("task", "prompt", "policy", "budget", "entries", "block", "compression", "seconds", "expected", "answer")


@dataclasses.dataclass
class Item:
    """One run of a plan; its place in the list is its number."""

    source: int
    task: str
    policy: str
    budget: str
    block: str  # tokens, or all
    tokens: int  # of a block
    compression: str


@dataclasses.dataclass
class Outcome:
    """What a run gave."""

    entries: int = 0
    seconds: float = 0.0
    problem: str = ""  # why it failed
    at_once: bool = False
    values: dict[str, float] = dataclasses.field(default_factory=dict)
    layers: dict[str, list[float]] = dataclasses.field(default_factory=dict)  # by layer
    stored: str = ""  # the prompt as JSON
    expected: str = ""  # the right answers as a JSON list
    answer: str = ""


class StudyResults:
    """The file of these settings and items: a new one, or one to go on with; no other study, of the program too, writes to it until
    close(). Raises KvloupeError for a file of others."""

    def __init__(self, path: Path, settings: dict[str, str], sources: list[tuple[str, str]], measures: list[str],
                 items: list[Item]) -> None:
        """sources: name and identity of each."""
        self._path, self._measures, pointer = path, measures, c_void_p()
        tasks = {item.source: item.task for item in items}
        plan = json.dumps({"settings": list(settings.items()), "measures": measures, "sources": [
            {"name": name, "identity": identity, "task": tasks.get(at, "")} for at, (name, identity) in enumerate(sources)], "items": [
            {"trace": item.source, "policy": item.policy, "budget": item.budget, "block_word": item.block, "block": item.tokens,
             "compression": item.compression} for item in items]}).encode()
        engine.call("results_open", os.fsencode(path), plan, len(plan), byref(pointer))
        self._file = engine.Handle(pointer, "results_close")

    def close(self) -> None:
        self._file.close()

    def missing(self) -> list[int]:
        """The items that wait or failed."""
        return [at for at, item in enumerate(engine.ask("results_table", False, self._path)["items"]) if item[0] != "done"]

    def record(self, item: int, outcome: Outcome) -> None:
        """Writes all of a run, or its problem."""
        values = [(name, -1, value) for name, value in outcome.values.items()]
        values += [(name, layer, value) for name, layers in outcome.layers.items() for layer, value in enumerate(layers)]
        fields = lambda *names: {name: getattr(outcome, name) for name in names}
        words = json.dumps({"item": item, **fields("problem", "seconds", "entries", "at_once"),
                            "prompt": fields("stored", "expected", "answer"), "values": [
                                (self._measures.index(name), layer, float(value) if math.isfinite(value) else None)
                                for name, layer, value in values]}).encode()
        engine.call("results_record", self._file, words, len(words))

    def table(self) -> tuple[dict[str, list[Any]], list[int | None]]:
        """The table and the lengths of read_study()."""
        columns, _, lengths = read_study(self._path)
        return columns, lengths


def read_study(path: Path, heads: bool = False) -> tuple[dict[str, list[Any]], dict[str, str], list[int | None]]:
    """Of a results file: a row for each item that is done, or for each of its layers and heads (its prompt and setting, the answer,
    and the measures); the settings; and how many tokens the prompt of each row has, where known. Raises KvloupeError."""
    found = engine.ask("results_table", heads, path)
    values: dict[tuple[int, ...], dict[int, float]] = {} if heads else {(at, -1, -1): {} for at in range(len(found["items"]))}
    for *place, measure, value in found["values"]:
        values.setdefault(tuple(place), {})[measure] = math.nan if value is None else value
    rows = [(*found["items"][place[0]], *place[1:], values[place]) for place in sorted(values)]
    rows = [row for row in rows if row[0] == "done"]
    columns = {name: [row[at] for row in rows] for at, name in enumerate((*_COLUMNS, *(("layer", "head") if heads else ())), 2)}
    for at, name in enumerate(found["measures"]):
        columns[name] = [row[-1].get(at, math.nan) for row in rows]
    return columns, dict(found["settings"]), [row[1] for row in rows]
