"""A policy as the state machine of one layer: it gets the states of each block and says what stays in the cache."""
import ctypes
import dataclasses
import json
import math
from ctypes import c_float
from typing import Any

import numpy as np

from . import engine
from .errors import KvloupeError
from .functions import AnyPolicy, spec_of

_TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}


@dataclasses.dataclass(frozen=True)
class Merge:
    """Entries that became one. Rows index the cache before the step's eviction."""

    into: int
    rows: np.ndarray  # int32 [members], ascending, `into` included
    weights: np.ndarray  # float32 [members]
    value: np.ndarray  # float32 [value_dim], in place of the value of `into`
    key: np.ndarray | None  # float32 [key_dim], rotated, in place of the key of `into`; None: the key stays
    log_size: float  # added to the logits of the merged entry


@dataclasses.dataclass(frozen=True)
class Rounded:
    """Keys or values of neighbouring entries that lose bits (quant), and stay so."""

    first: int  # a row of the cache after the step's eviction
    numbers: np.ndarray  # float32 [entries, key_dim], rotated, or [entries, value_dim]


@dataclasses.dataclass(frozen=True)
class Kept:
    """What a step leaves of one head's cache."""

    entries: int  # n before the eviction, the block's own included
    left_window: int  # the first so many rows left the sliding window; they are not kept
    rows: np.ndarray  # int32 [kept], ascending: rows of the cache before the eviction
    tokens: np.ndarray  # int32 [kept]: the positions of these rows
    merges: tuple[Merge, ...]
    log_sizes: np.ndarray | None  # float32 [kept], added to the logits from now on; None: all 0
    scores: np.ndarray | None  # float32 [entries - left_window], higher = kept; None: none were needed
    threshold: float  # the lowest score that was kept for its score; NaN: none was
    rounded_keys: Rounded | None = None  # None: no entry lost bits
    rounded_values: Rounded | None = None

    @property
    def whole(self) -> bool:
        """Whether the step left the cache as it was."""
        return len(self.rows) == self.entries and not self.changes

    @property
    def changes(self) -> bool:
        """Whether the step changed the numbers of an entry."""
        return bool(self.merges) or self.rounded_keys is not None or self.rounded_values is not None


def states_of(array: Any, what: str) -> tuple[Any, Any]:
    """The array [heads, tokens, channels] (or [1, heads, tokens, channels]) as the engine reads it, where it lies, and
    what must live as long. torch tensors on the CPU, numpy arrays, and whatever numpy.from_dlpack takes. An array whose
    rows are not side by side is copied."""
    if hasattr(array, "data_ptr") and hasattr(array, "stride"):  # torch, without importing it
        if array.device.type != "cpu":
            raise KvloupeError(f"{what}: is on {array.device}; move it to the CPU (Policy.reads says what a policy reads)")
        array = array.detach()
        kind, shape = str(array.dtype).removeprefix("torch."), tuple(array.shape)
        if len(shape) == 4 and shape[0] == 1:
            array, shape = array[0], shape[1:]
        if len(shape) == 3 and shape[2] and (array.stride(2) != 1 or array.stride(1) < shape[2]):
            array = array.contiguous()
        strides, pointer = tuple(array.stride()), array.data_ptr()
    else:
        if not isinstance(array, np.ndarray):
            try:
                array = np.from_dlpack(array) if hasattr(array, "__dlpack__") else np.asarray(array)
            except (BufferError, RuntimeError, TypeError, ValueError) as error:
                raise KvloupeError(f"{what}: cannot be read as an array ({error}); give a numpy array or a tensor on the "
                                   "CPU") from error
        kind = array.dtype.name if array.dtype.isnative else f"{array.dtype.name} of the other byte order"
        if array.ndim == 4 and array.shape[0] == 1:
            array = array[0]
        shape, size = array.shape, array.itemsize
        if array.ndim == 3 and shape[2] and (
                array.strides[2] != size or array.strides[0] < 0 or array.strides[0] % size or array.strides[1] % size
                or array.strides[1] < size * shape[2]):
            array = np.ascontiguousarray(array)
        strides, pointer = tuple(stride // size for stride in array.strides), array.ctypes.data
    if kind not in _TYPES:
        raise KvloupeError(f"{what}: has numbers of type {kind}; give float32, float16 or bfloat16")
    if len(shape) != 3:
        raise KvloupeError(f"{what}: has the shape {list(shape)}; give [heads, tokens, channels]")
    row_stride = strides[1] if shape[1] > 1 else shape[2]
    head_stride = strides[0] if shape[0] > 1 else 0
    return engine.kind("states")(pointer, _TYPES[kind], *shape, head_stride, row_stride), array


class Policy:
    """The policy `spec` for the caches of one layer; all heads decide together.

    heads, query_heads: key-value heads, and a multiple of them. key_dim, value_dim (default: key_dim): channels.
    budget: entries of a head after a step (under an allocation the mean), as a number. layer, layers: the layer's number
    and how many the model has. window: tokens that a query sees, its own included; 0: all. chunk: a query sees the tokens of
    its own chunk of so many, from a multiple of it on; 0: no chunks. scale: the factor of q·k
    (default: 1/sqrt(key_dim)). softcap: 0 for none. sink_logits: float32 [query_heads]. rope_theta (0: nothing rotates),
    rope_scaling (as in config.json), rope_pairing ("half" or "interleaved"), rotary_start and rotary_dim (0: all) say
    how keys are rotated. output_weight: [query_heads, value_dim, hidden size], W_O cut by query head, for policies
    whose `reads` has it. positions: "original" or "compact". prompt_length: tokens of the prompt, for policies that act
    by what is generated (every, only, protect_prompt); 0: not known. values_in_keys: a value is the first value_dim numbers
    of its key, as in a cache of latents; where a key loses bits (quant), so does its value.

    Raises KvloupeError for a spec, shape or budget that cannot be, and for policies that cannot run in a model.
    """

    def __init__(self, spec: AnyPolicy, *, heads: int, key_dim: int, budget: int, query_heads: int | None = None,
                 value_dim: int | None = None, layer: int = 0, layers: int = 1, window: int = 0,
                 chunk: int = 0, scale: float | None = None, softcap: float = 0.0, sink_logits: Any = None, rope_theta: float = 10000.0,
                 rope_scaling: Any = None, rope_pairing: str = "half", rotary_start: int = 0, rotary_dim: int = 0,
                 output_weight: Any = None, positions: str = "original", prompt_length: int = 0,
                 values_in_keys: bool = False) -> None:
        if positions not in ("original", "compact") or rope_pairing not in ("half", "interleaved"):
            raise KvloupeError(f"positions {positions!r}, rope_pairing {rope_pairing!r}: give original or compact, and half "
                               "or interleaved")
        shape = engine.struct("layer")
        query_heads, value_dim = query_heads or heads, value_dim or key_dim
        for name, value in (("layer", layer), ("layers", layers), ("heads", heads), ("query_heads", query_heads),
                            ("key_dim", key_dim), ("value_dim", value_dim), ("sliding_window", window), ("chunk_size", chunk),
                            ("budget", budget), ("rotary_start", rotary_start), ("rotary_dim", rotary_dim),
                            ("prompt_length", prompt_length), ("values_in_keys", values_in_keys)):
            if int(value) != value or not -1 << 31 <= int(value) < 1 << 31:
                raise KvloupeError(f"{name}: {value} is not a whole number of 32 bits")
            setattr(shape, name, int(value))
        shape.compact, shape.interleaved = positions == "compact", rope_pairing == "interleaved"
        shape.rope_theta, shape.softcap = rope_theta, softcap
        shape.attention_scale = 1.0 / math.sqrt(max(key_dim, 1)) if scale is None else scale
        if rope_scaling is not None:
            shape.rope_scaling = json.dumps(rope_scaling).encode()
        if sink_logits is not None:
            sinks = np.ascontiguousarray(sink_logits, np.float32)
            if sinks.shape != (query_heads,):
                raise KvloupeError(f"sink_logits: has the shape {list(sinks.shape)}; give [{query_heads}]")
            shape.sink_logits = sinks.ctypes.data_as(ctypes.POINTER(c_float))
        alive: Any = None
        if output_weight is not None:
            shape.output_weights, alive = states_of(output_weight, "output_weight")
        self._handle = engine.made("policy_create", "policy_destroy", spec_of(spec).encode(), shape)
        del alive
        self._library = engine.needed()
        bits = self._library.kvloupe_engine_policy_reads(self._handle)
        self.spec: str = self._library.kvloupe_engine_policy_spec(self._handle).decode()  # canonical
        self.reads = frozenset(name for name, bit in (
            ("queries", engine.READS_QUERIES), ("values", engine.READS_VALUES),
            ("output_weight", engine.READS_OUTPUT_WEIGHTS)) if bits & bit)  # beside keys
        self.merges, self.rounds = bool(bits & engine.MERGES), bool(bits & engine.ROUNDS)
        self.tokens = 0  # so far
        self._heads, self._key_dim, self._value_dim = heads, key_dim, value_dim

    def __repr__(self) -> str:
        return f"<kvloupe.Policy {self.spec}: {self._heads} heads of {self._key_dim}, {self.tokens} tokens so far>"

    def step(self, keys: Any, values: Any = None, queries: Any = None, *, last: bool = False,
             acts: bool = True) -> list[Kept]:
        """Appends a block of m tokens, decides and evicts: what stays, for each head.

        keys [heads, m, key_dim] and queries [query_heads, m, key_dim], rotated to the tokens' own positions; values
        [heads, m, value_dim]; float32, float16 or bfloat16, read where they lie. Only what `reads` names is read; the
        rest may be None. last: no token follows. acts=False: nothing is evicted now, nor may it be later (compression
        of the context only). Raises KvloupeError, after which a new policy is needed.
        """
        block = engine.struct("block", last=bool(last), acts=bool(acts))
        alive = []
        for name, given, read in (("keys", keys, True), ("values", values, "values" in self.reads),
                                  ("queries", queries, "queries" in self.reads and acts)):
            if not read:
                continue
            if given is None:
                raise KvloupeError(f"{name}: {self.spec} reads them; give {name} to step()")
            of, array = states_of(given, name)
            setattr(block, name, of)
            alive.append(array)
        block.first_new, block.end_new = self.tokens, self.tokens + block.keys.rows
        found = ctypes.POINTER(engine.kind("retained"))()
        engine.call("policy_step", self._handle, ctypes.byref(block), ctypes.byref(found))
        del alive
        self.tokens = block.end_new
        return [self._kept(found[head]) for head in range(self._heads)]

    def _kept(self, of: Any) -> Kept:
        merges = tuple(Merge(one.into, _copy(one.from_, one.members), _copy(one.weights, one.members),
                             _copy(one.value, self._value_dim),
                             _copy(one.key, self._key_dim) if one.key_changed else None, one.log_size)
                       for one in of.merges[:of.merge_count])
        return Kept(of.entries, of.left_window, _copy(of.kept, of.kept_count), _copy(of.tokens, of.kept_count), merges,
                    _copy(of.log_sizes, of.kept_count) if of.log_sizes else None,
                    _copy(of.scores, of.entries - of.left_window) if of.scores else None, of.threshold,
                    _rounded(of.keys, self._key_dim), _rounded(of.values, self._value_dim))


def _rounded(of: Any, width: int) -> Rounded | None:
    return Rounded(of.first, _copy(of.numbers, of.count * width).reshape(-1, width)) if of.count else None


def _copy(pointer: Any, count: int) -> np.ndarray:
    """The numbers at a pointer of the engine, which are gone after its next call."""
    kind = np.int32 if pointer._type_ is ctypes.c_int32 else np.float32
    return np.frombuffer(ctypes.string_at(pointer, 4 * count), kind).copy() if count else np.empty(0, kind)
