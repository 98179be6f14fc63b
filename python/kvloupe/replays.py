"""Replays, followed tokens and sweeps by the engine where it is there, else by the program; the numbers are the same."""
import ctypes
import hashlib
import json
import os
import re
from ctypes import c_char_p, c_double, c_int32, c_int64, c_void_p
from types import SimpleNamespace
from typing import Any, Sequence, cast

import numpy as np

from . import engine, program
from .errors import KvloupeError
from .functions import AnyPolicy, spec_of
from .tables import strips

_COMPRESSION = {None: -1, "regular": 0, "context-only": 1}
_STEPS = {None: False, "all": False, "last": True}


def _words(settings: dict[str, Any], *names: str) -> SimpleNamespace | None:
    """Options of a call as the engine takes them, texts as on the command line; None where there is no engine, or where it does not
    know one of them: the program says what is wrong. Raises KvloupeError."""
    given = {name: value for name, value in settings.items() if value is not None and value is not False}
    block, compression, steps = (given.get(name) for name in ("block", "compression", "steps"))
    size = -1 if block == "all" else int(str(block)) if re.fullmatch("[0-9]{1,10}", str(block)) else 0
    wrong = block is not None and not (size == -1 or 0 < size < 1 << 31)
    known = set(given) <= set(names) and compression in _COMPRESSION and steps in _STEPS
    if wrong or not known or engine.library() is None:
        return None
    texts = {name: program.joined(value).encode() for name, value in given.items()}
    measures = texts["measures"].decode().split(",") if "measures" in texts else []
    measured = measures != ["none"]
    if "none" in measures and measured:
        raise KvloupeError("--measures none: nothing else may stand beside none")
    return SimpleNamespace(block=size, compression=_COMPRESSION[compression], last=_STEPS[steps], text=texts.get,
                           measured=measured, measures=measures if measured else [])


def _names(names: Sequence[str]) -> Any:
    return (c_char_p * len(names))(*(name.encode() for name in names))


def _request(policy: AnyPolicy, budget: Any, words: SimpleNamespace) -> Any:
    return engine.struct("replay_request", block=words.block, compression=words.compression, policy=spec_of(policy).encode(),
                         budget=str(budget).encode())


class Replay(dict):
    """The content of `kvloupe replay --json`, which is made when it is first read; beside it the sets and measures as
    arrays. Heads are those of the layers asked for, layer by layer."""

    def __init__(self, trace: engine.Handle, request: Any, shown: tuple[bytes | None, bool], asked: Any) -> None:
        super().__init__(heads=None)  # until it is filled; C code takes an empty dictionary at its word
        self._shown, self._asked = shown, asked
        self._library = engine.needed()
        self._handle = engine.made("replay_create", "replay_destroy", trace, request, request=request)
        facts = engine.struct("replay_facts")
        self._library.kvloupe_engine_replay_describe(self._handle, ctypes.byref(facts))
        self._shape = facts.heads, facts.steps, facts.tokens
        self._filled = False
        if shown[0] is not None:  # a wrong list is known now
            self._fill()

    def _sets(self, place: int, *shape: int) -> np.ndarray:
        array = np.empty(shape, np.int32)
        places: list[Any] = [None, None, None]
        places[place] = array.ctypes.data
        self._library.kvloupe_engine_replay_sets(self._handle, *places)
        return array

    @property
    def layer_head(self) -> np.ndarray:
        """int32 [heads, 2]: layer and head of each row of the arrays."""
        return self._sets(0, self._shape[0], 2)

    @property
    def ends(self) -> np.ndarray:
        """int32 [steps]: one past the last token of each step."""
        return self._sets(1, self._shape[1])

    @property
    def evicted_at(self) -> np.ndarray:
        """int32 [heads, T]: the step at which a token left the head, -1 if it stayed."""
        return self._sets(2, self._shape[0], self._shape[2])

    def kept(self, layer: int, head: int, step: int = -1) -> np.ndarray:
        """int32, ascending: the tokens that a head retains after a step; -1: the last. Raises KvloupeError."""
        found = np.flatnonzero((self.layer_head == (layer, head)).all(1))
        if not len(found):
            raise KvloupeError(f"layer {layer}, head {head}: the replay has none; see Replay.layer_head")
        step = step + self._shape[1] if step < 0 else step
        count = c_int32()
        engine.call("replay_retained", self._handle, int(found[0]), step, None, 0, ctypes.byref(count))
        tokens = np.empty(count.value, np.int32)
        engine.call("replay_retained", self._handle, int(found[0]), step, tokens.ctypes.data, len(tokens),
                    ctypes.byref(count))
        return tokens

    def measure(self, name: str, per_step: bool = False) -> np.ndarray:
        """float64: a measure by its name in `kvloupe measures`, computed now if the replay did not: [heads] by its own
        summary, or [heads, steps], of a measure of query heads their mean; NaN where not known. Raises KvloupeError."""
        values = np.empty(self._shape[:2] if per_step else self._shape[:1])
        engine.stoppable(lambda work: engine.call("replay_measure", self._handle, name.encode(), per_step,
                                                  values.ctypes.data, values.size, work))
        return values

    def to_xarray(self, *measures: str) -> Any:
        """An xarray.Dataset: evicted_at [head, token], as above, and each measure named [head, step], with the coordinates layer
        and kv_head of each head, and end, one past the last token, of each step. Raises KvloupeError where xarray is not installed."""
        try:
            import xarray
        except ImportError as error:
            raise KvloupeError("to_xarray() needs the package xarray; install it: pip install xarray") from error
        layer, head = self.layer_head.T
        path, policy, budget, settings = self._asked
        return xarray.Dataset(
            {"evicted_at": (("head", "token"), self.evicted_at)}
            | {name: (("head", "step"), self.measure(name, per_step=True)) for name in measures},
            {"layer": ("head", layer), "kv_head": ("head", head), "end": ("step", self.ends)},
            {"trace": path, "policy": policy, "budget": str(budget), **{name: str(value) for name, value in settings.items()}})

    def _fill(self) -> None:
        if self._filled:
            return
        text, size = c_void_p(), c_int64()
        engine.call("replay_json", self._handle, *self._shown, ctypes.byref(text), ctypes.byref(size))
        super().clear()
        super().update(json.loads(ctypes.string_at(text.value or 0, size.value)))
        self._filled = True

    def _digest(self) -> str:
        return hashlib.sha256(self.evicted_at.tobytes()).hexdigest()

    def __reduce__(self) -> Any:  # a copy, also in another process, is replayed again
        return _again, (*self._asked, self._digest())

    def __repr__(self) -> str:
        path, policy, budget, _ = self._asked
        heads, steps, tokens = self._shape
        kept = [self.evicted_at[head] < 0 for head in range(heads)]
        least, most = min(map(np.sum, kept), default=0), max(map(np.sum, kept), default=0)
        return (f"<kvloupe.Replay of {os.path.basename(path)}: {policy}, budget {budget}; {heads} heads, {steps} steps; "
                f"{least if least == most else f'{least} to {most}'} of {tokens} tokens stay; .kept(layer, head), .measure(name)>")

    def _repr_html_(self) -> str:
        return strips(repr(self), ((layer, head, left < 0) for (layer, head), left in zip(self.layer_head, self.evicted_at)))


def _filled(name: str) -> Any:
    own = getattr(dict, name)

    def method(self: Replay, *arguments: Any, **named: Any) -> Any:
        for one in (self, *arguments):
            if isinstance(one, Replay):
                one._fill()
        return own(self, *arguments, **named)
    method.__name__ = name
    return method


for _name in ("__contains__", "__getitem__", "__iter__", "__len__", "__eq__", "__ne__", "__or__", "__ror__", "__ior__",
              "__reversed__", "__setitem__", "__delitem__", "get", "items", "keys", "values", "copy", "pop", "popitem",
              "setdefault", "update", "clear"):
    setattr(Replay, _name, _filled(_name))


def _again(path: str, policy: str, budget: Any, settings: dict[str, Any], digest: str) -> Replay:
    made = replay(path, policy, budget, **settings)
    if isinstance(made, Replay) and made._digest() != digest:
        raise KvloupeError(f"{path}: the trace has changed since this replay, which kept other tokens; make the replay again")
    return made


def replay(path: str | os.PathLike[str], policy: AnyPolicy, budget: str | int, **settings: Any) -> Replay:
    """The JSON of `kvloupe replay`: the sets kept in every layer and head, and the measures; the `Replay` has them as arrays,
    too. Without the engine a dictionary alone. A copy of it is replayed from the trace again. Raises KvloupeError."""
    words = _words(settings, "block", "compression", "layers", "heads", "steps", "measures")
    if words is None:
        return cast(Replay, program.replay(path, policy, budget, **settings))
    request = _request(policy, budget, words)
    request.measured, request.measure_count, request.measures = words.measured, len(words.measures), _names(words.measures)
    request.layers = words.text("layers")
    asked = os.path.abspath(path), spec_of(policy), budget, settings
    return Replay(engine.open_trace(path), request, (words.text("heads"), words.last), asked)


def follow(path: str | os.PathLike[str], policy: AnyPolicy, budget: str | int, **settings: Any) -> dict[str, Any]:
    """The JSON of `kvloupe follow`; give `tokens` or `segment`. Raises KvloupeError."""
    words = _words(settings, "block", "compression", "tokens", "segment")
    if words is None:
        return program.follow(path, policy, budget, **settings)
    request = _request(policy, budget, words)
    return engine.json_of(engine.made("follow", "text_destroy", engine.open_trace(path), request, words.text("tokens"),
                                      words.text("segment"), request=request))


def sweep(path: str | os.PathLike[str], policies: AnyPolicy | Sequence[AnyPolicy], budgets: Any, *,
          output: str | os.PathLike[str] | None = None, **settings: Any) -> Any:
    """The measures of `kvloupe sweep`: one row for each policy, budget, block size, layer and head.

    A pandas DataFrame where pandas is installed, else a dictionary of columns (lists). What is not known is NaN.
    `policies`, `budgets` and, as a setting, `blocks` are one value or a list: ["25%", 128]; `policy_given` and `budget_given` say
    them as they were given; `entries` and `share` (of the prompt) are numbers. `measures`: names, or "all". attrs say the model,
    the version, and why a measure is unknown. `output` keeps the CSV file, which the program writes: rows that it already has are
    not computed again, and it has its own names alone. Raises KvloupeError.
    """
    words = None if output is not None else _words(settings, "blocks", "compression", "measures")
    if words is None:
        return program.sweep(path, policies, budgets, output=output, **settings)
    request = engine.struct("sweep_request", compression=words.compression, policies=program.joined(policies).encode(),
                            budgets=program.joined(budgets).encode(), blocks=words.text("blocks"),
                            default_measures=words.measured and not words.measures, measure_count=len(words.measures),
                            measures=_names(words.measures))
    made = engine.made("sweep_create", "sweep_destroy", engine.open_trace(path), request, request=request)
    return program.swept(_sweep_columns(made), path, policies, budgets, True, settings.get("measures"))


def _sweep_columns(sweep_of: engine.Handle) -> dict[str, Any]:
    """The columns of the CSV file of `kvloupe sweep`, in its order."""
    facts = engine.struct("sweep_facts")
    engine.needed().kvloupe_engine_sweep_describe(sweep_of, ctypes.byref(facts))
    rows, count = facts.rows, facts.measures
    taken = lambda pointer, kind, width: np.frombuffer(
        ctypes.string_at(pointer, rows * width * ctypes.sizeof(kind)), kind).reshape(rows, width)
    numbers = taken(facts.numbers, c_int32, 4).astype(np.int64)
    values = taken(facts.values, c_double, count)
    texts = [text.decode() for text in facts.texts[:rows * 7]]
    trace, identity, policy, compression, *terms = (texts[at::7] for at in range(7))
    budget, block, layer, head = numbers.T
    columns: dict[str, Any] = {"trace": trace, "identity": identity, "policy": policy, "budget": budget, "block": block,
                               "compression": compression, "layer": layer, "head": head}
    with np.errstate(invalid="ignore"):  # a column of whole numbers has those, as read from a CSV file
        whole = (np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 1e16)).all(0)
    for at, name in enumerate(facts.measure_names[:count]):
        column = values[:, at]
        columns[name.decode()] = column.astype(np.int64) if whole[at] else column
    return columns | dict(zip(("question", "prompt_compressed", "budget_counts"), terms))
