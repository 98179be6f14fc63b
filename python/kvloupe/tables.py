"""What a notebook shows: tables with the same columns for the same things, of sweeps, of evaluate and of results files; strips
of tokens."""
import html
import json
import math
import os
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, Iterable, Sequence

import numpy as np

from .engine import ask
from .errors import KvloupeError
from .reader import Trace
from .version import VERSION

_COLUMNS = ("task", "prompt", "policy", "budget", "entries", "block", "compression", "seconds", "expected", "answer")
_HEADS, _CELLS = 16, 120  # of the strips
_LACKS = {"question_": "the trace has no segment question", "answer_": "the trace has no answer",
          "later_": "the trace has no later queries", "evidence_": "the trace has no segment needle"}


def share_of(budget: Any, entries: int, tokens: int | None) -> float:
    """Entries as a share of the prompt's tokens: the percentage that was given, or what a number of entries comes to."""
    text = str(budget)
    if text.endswith("%"):
        return float(Fraction(text[:-1]) / 100)
    return 1.0 if text == "full" else float(entries / tokens) if tokens else math.nan


def table(columns: dict[str, Any], **attributes: Any) -> Any:
    """A pandas DataFrame of these columns, with `attributes` as its attrs, where pandas is installed, else a dictionary of lists."""
    try:
        import pandas
    except ImportError:
        return {name: column if isinstance(column, list) else column.tolist() for name, column in columns.items()}
    made = pandas.DataFrame(columns)
    made.attrs = {"version": VERSION, **attributes}
    return made


def of_sweep(columns: dict[str, Any], path: Any, measures: Sequence[str], catalogue: Sequence[dict[str, Any]]) -> Any:
    """The table of a sweep, without measures that nobody asked for. measures: those asked for by name."""
    with Trace(path) as trace:
        tokens, model = int(trace.run["prompt_length"]), str(trace.model.get("name", ""))
    columns = columns | {"entries": columns["budget"], "share": [
        share_of(given, entries, tokens) for given, entries in zip(columns["budget_given"], columns["budget"])]}
    reasons = {}
    for one in catalogue:
        name = one["name"]
        if name not in columns or "all" not in measures and (name not in measures if measures else one["on_request"]):
            columns.pop(name, None)
        elif all(value != value for value in columns[name]):
            reasons[name] = f"only policies with {one['policy_part']} have it" if one["policy_part"] else next(
                (why for start, why in _LACKS.items() if name.startswith(start)), "this trace or policy does not have it")
    return table(columns, model=model, trace=os.fspath(path), reasons=reasons)


def of_runs(columns: dict[str, Any], counts: Sequence[int | None], settings: dict[str, Any], given: dict[str, Any] = {}) -> Any:
    """The table of runs. counts: tokens of each prompt; given: policies and budgets as they were given."""
    own = lambda word: given.get(word, int(word) if word.isdecimal() else word)
    columns = columns | {f"{name}_given": [own(word) for word in columns[name]] for name in ("policy", "budget")}
    columns["share"] = list(map(share_of, columns["budget"], columns["entries"], counts))
    asked = [re.fullmatch(r"(.*#[0-9]+)\.q([0-9]+)", name, re.DOTALL) for name in columns["prompt"]]
    if any(asked):  # several questions about one context: their runs are not independent
        columns["context"] = [found[1] if found else name for found, name in zip(asked, columns["prompt"])]
        columns["question"] = [int(found[2]) if found else 0 for found in asked]

    def why(name: str, task: str, policy: str) -> str:
        of, _, measure = name.partition("_")
        if name == "share":
            return "the number of the prompt's tokens is not known"
        if of in columns["task"] and of != task:
            return f"only runs of the task {of} have it"
        return ("the answer has no loop" if measure == "loop_begin" else "it compares a run with the one with the full cache"
                if policy == "full" else "not known for this run")
    found = {name: sorted({why(name, *rest) for value, *rest in zip(column, columns["task"], columns["policy"]) if value != value})
             for name, column in columns.items()}
    return table(columns, model=settings.get("model", ""), settings=settings,
                 reasons={name: "; ".join(words) for name, words in found.items() if words})


def results(path: str | os.PathLike[str], heads: bool = False) -> Any:
    """The rows of a results file: of `kvloupe study`, `kvloupe-capture study`, kvloupe.evaluate or `kvloupe-capture eval`.

    A row for each run that is done, or, with heads=True, for each layer and head of a study: task, prompt, policy, budget,
    entries, share (of the prompt's tokens), and the measures. A pandas DataFrame, whose attrs have the model, the version, the
    settings, and why a measure is NaN; without pandas a dictionary of lists. Raises KvloupeError for a file without results."""
    file = Path(path)
    try:
        with file.open("rb") as data:
            study = data.read(15) == b"SQLite format 3"
        columns, settings, counts = read_study(file, heads) if study else _evaluation(json.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise KvloupeError(f"{path}: cannot be read ({error.strerror}); give a results file") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KvloupeError(f"{path}: is not a results file; give one of a study, of evaluate or of eval") from error
    lengths = {name: _length(name) for name, count in zip(columns["prompt"], counts) if count is None}
    return of_runs(columns, [lengths.get(name, count) for name, count in zip(columns["prompt"], counts)], settings)


def read_study(path: Path, heads: bool = False) -> tuple[dict[str, list[Any]], dict[str, str], list[int | None]]:
    """Of a results file: a row for each item that is done, or for each of its layers and heads (its prompt and setting, the answer,
    and the measures); the settings; and how many tokens the prompt of each row has, where known. Raises KvloupeError."""
    found = ask("results_table", heads, path)
    values: dict[tuple[int, ...], dict[int, float]] = {} if heads else {(at, -1, -1): {} for at in range(len(found["items"]))}
    for *place, measure, value in found["values"]:
        values.setdefault(tuple(place), {})[measure] = math.nan if value is None else value
    rows = [(*found["items"][place[0]], *place[1:], values[place]) for place in sorted(values)]
    rows = [row for row in rows if row[0] == "done"]
    columns = {name: [row[at] for row in rows] for at, name in enumerate((*_COLUMNS, *(("layer", "head") if heads else ())), 2)}
    for at, name in enumerate(found["measures"]):
        columns[name] = [row[-1].get(at, math.nan) for row in rows]
    return columns, dict(found["settings"]), [row[1] for row in rows]


def _length(trace: str) -> int | None:
    """Of the prompt of a trace; None where it is not there any more."""
    try:
        with Trace(trace) as opened:
            return int(opened.run["prompt_length"])
    except KvloupeError:
        return None


def _evaluation(content: Any) -> tuple[dict[str, Any], dict[str, Any], list[int | None]]:
    """Of the JSON of `kvloupe-capture eval`."""
    if content["format"] != "kvloupe-eval":
        raise ValueError
    settings, rows = content["settings"], content["runs"]
    task = settings["task"]
    place = lambda run: f"{task}: {run['length']} tokens" + (
        f", depth {run['depth']:g} %" if "depth" in run else "") + f", sample {run['sample']}"
    columns: dict[str, Any] = {"task": [task] * len(rows), "prompt": list(map(place, rows)), "block": [settings["block"]] * len(rows),
                               "compression": [settings.get("compression", "regular")] * len(rows)}
    for name in dict.fromkeys(name for run in rows for name in run if name not in ("length", "depth", "sample", "tokens", "prompt")):
        values = [run.get(name) for run in rows]
        if name not in ("policy", "budget", "entries", "seconds", "expected", "answer"):  # by layer: the mean
            values = [math.nan if one is None else sum(one) / len(one) if isinstance(one, list) else float(one) for one in values]
            name = f"{task}_{'found' if name == 'correct' else name}"
        columns[name] = values
    return columns, settings, [run["tokens"] for run in rows]


def strips(title: str, heads: Iterable[tuple[int, int, Any]]) -> str:
    """HTML: `title`, and for each of the first (layer, head, whether each token stays) a strip, dark where tokens stay."""
    rows, count = [], 0
    for count, (layer, head, stays) in enumerate(heads, 1):
        if count > _HEADS:
            continue
        shares = [np.mean(part) for part in np.array_split(stays, max(1, min(len(stays), _CELLS)))]
        cells = "".join(f'<rect x="{5 * at}" width="5" height="12" fill-opacity="{share:.2f}"/>' for at, share in enumerate(shares))
        rows.append(f'<tr><td>{layer}.{head}</td><td>{np.sum(stays)}</td><td><svg width="{5 * len(shares)}" height="12" '
                    f'fill="#0072b2">{cells}</svg></td></tr>')
    more = f"<p>The first {_HEADS} of {count} heads.</p>" if count > _HEADS else ""
    return (f"<p>{html.escape(title)}</p><table><tr><th>layer.head</th><th>kept</th><th>tokens that stay</th></tr>"
            f"{''.join(rows)}</table>{more}")
