"""Reads traces with numpy: states per layer and head, and attention of any rows computed from them."""
from __future__ import annotations

import json
import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np

from .errors import KvloupeError
from .rotation import frequencies, unrotated
from .writer import Layer, readable, spelled_bytes


class Trace:
    """An open trace. Arrays are float32; `layer`, `head` (key-value) and `query_head` count from 0."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self._file = h5py.File(self.path, "r")
        except OSError as error:
            raise KvloupeError(f"{path}: is not a trace that can be read ({error})") from error
        attributes = self._file.attrs
        if attributes.get("format") not in ("kvloupe-trace", b"kvloupe-trace"):
            self._file.close()
            raise KvloupeError(f"{path}: is not a trace of kvloupe; give a file that a capture wrote")
        if attributes.get("format_version", 0) != 1 or not attributes.get("complete", 0):
            self._file.close()
            raise KvloupeError(f"{path}: is not complete, or of a newer format; capture the prompt again")
        self.model: dict[str, Any] = dict(self._file["model"].attrs)
        self.run: dict[str, Any] = dict(self._file["run"].attrs)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self._file["tokens/ids"].shape[0])

    def _states(self, name: str, layer: int, head: int) -> np.ndarray:
        path = f"layers/{layer}/{name}"
        if path not in self._file:
            raise KvloupeError(f"{self.path}: has no {path}")
        data = self._file[path]
        if not 0 <= head < data.shape[0]:
            raise KvloupeError(f"{path}: has heads 0 to {data.shape[0] - 1}, not {head}")
        return data[head].astype(np.float32)

    def layer(self, layer: int) -> Layer:
        """How this layer attends: scale, cap of the logits, window, sink logits, rotation."""
        if f"layers/{layer}" not in self._file:
            raise KvloupeError(f"{self.path}: has no layers/{layer}")
        group = self._file[f"layers/{layer}"]
        own = group.attrs
        sinks = group["sink_logits"][:].astype(np.float32) if "sink_logits" in group else None
        scaling = own["rope_scaling"] if "rope_scaling" in own else (
            None if "rope_theta" in own else self.model.get("rope_scaling"))
        return Layer(scale=float(own.get("attention_scale", self.run["attention_scale"])),
                     softcap=float(own.get("attention_softcap", 0.0)),
                     window=int(own.get("sliding_window", self.model.get("sliding_window", 0))), sink_logits=sinks,
                     rope_theta=float(own.get("rope_theta", self.model.get("rope_theta", 0.0))),
                     rope_scaling=json.loads(scaling) if scaling is not None else None)

    def query(self, layer: int, query_head: int, rotated: bool = True) -> np.ndarray:
        """[T, d], after the rotation, or with the rotation undone."""
        return self._turned(self._states("query", layer, query_head), layer, rotated)

    def key(self, layer: int, head: int, rotated: bool = True) -> np.ndarray:
        """[T, d], after the rotation, or with the rotation undone."""
        return self._turned(self._states("key", layer, head), layer, rotated)

    def _turned(self, states: np.ndarray, layer: int, rotated: bool) -> np.ndarray:
        settings = self.layer(layer)
        if rotated or "rope_theta" in self._file[f"layers/{layer}"].attrs and settings.rope_theta == 0.0:
            return states
        width = int(self.model.get("rotary_dim", 0)) or states.shape[1]
        angles, _ = frequencies(settings.rope_theta or 0.0, settings.rope_scaling, width)
        pairing = self.model.get("rope_pairing", "half")
        pairing = pairing.decode() if isinstance(pairing, bytes) else str(pairing)
        return unrotated(states, np.arange(len(states)), angles, pairing)

    def value(self, layer: int, head: int) -> np.ndarray:
        """[T, d]"""
        return self._states("value", layer, head)

    def output_weight(self, layer: int, query_head: int) -> np.ndarray:
        """[d, D]: the rows of W_O of this query head, from the trace or, if it says so, from the cache folder."""
        if f"layers/{layer}/output_weight" in self._file or "shared_weights" not in self.model:
            return self._states("output_weight", layer, query_head)
        with self._shared_weights() as weights:
            data = weights[f"layers/{layer}/output_weight"]
            shape = (self.model["num_heads"], self.model["head_dim"], self.model["hidden_size"])
            if data.shape != tuple(int(size) for size in shape):
                raise KvloupeError(f"{weights.filename}: holds the weights of another model; remove it")
            if not 0 <= query_head < data.shape[0]:
                raise KvloupeError(f"{self.path}: has query heads 0 to {data.shape[0] - 1}, not {query_head}")
            return data[query_head].astype(np.float32)

    def _shared_weights(self) -> h5py.File:
        """The file of weights that this trace names; checked."""
        words = {name: value.decode() if isinstance(value, bytes) else str(value)
                 for name in ("fingerprint", "shared_weights") for value in [self.model.get(name, "")]}
        fingerprint, form = words["fingerprint"], words["shared_weights"]
        if not re.fullmatch("v1:[0-9a-f]{64}", fingerprint) or not re.fullmatch("(bf16|f32)-f(16|32)", form):
            raise KvloupeError(f"{self.path}: keeps its weights elsewhere and does not say where; capture it again")
        cache = os.environ.get("XDG_CACHE_HOME", "")
        folder = Path(cache) if cache.startswith("/") else Path.home() / ".cache"
        path = folder / "kvloupe" / "weights" / f"{fingerprint[3:]}-{form}.h5"
        advice = f"kvloupe-capture pack {self.path} --model MODEL -o FILE makes a trace that holds its weights"
        if path.is_symlink() or not path.is_file():
            raise KvloupeError(f"{self.path}: its weights are kept elsewhere: {path} is not there; {advice}")
        try:
            weights = h5py.File(path, "r")
        except OSError as error:
            raise KvloupeError(f"{path}: cannot be read ({error}); {advice}") from error
        held = dict(weights["model"].attrs) if "model" in weights else {}
        if (weights.attrs.get("format") != "kvloupe-weights" or not weights.attrs.get("complete", 0)
                or held.get("fingerprint") != fingerprint or held.get("shared_weights") != form):
            weights.close()
            raise KvloupeError(f"{path}: does not hold the weights of {self.path}; {advice}")
        return weights

    @property
    def probe(self) -> dict[str, Any] | None:
        """The second reading of the context: kind, context_end, ids [P], passes [C, 4] (first and one-past-last of its
        tokens, and of those of the context that it reads again); None if the trace has none."""
        if "probe" not in self._file:
            return None
        group = self._file["probe"]
        kind = group.attrs.get("kind", "")
        return {"kind": kind.decode() if isinstance(kind, bytes) else str(kind),
                "context_end": int(group.attrs["context_end"]), "ids": group["ids"][:], "passes": group["passes"][:]}

    def probe_query(self, layer: int, query_head: int) -> np.ndarray:
        """[P, d] of the probe's tokens, after the rotation."""
        return self._states("probe_query", layer, query_head)

    def probe_key(self, layer: int, head: int) -> np.ndarray:
        """[P, d] of the probe's tokens, after the rotation."""
        return self._states("probe_key", layer, head)

    def head_of(self, query_head: int) -> int:
        """The key-value head that a query head reads."""
        return query_head // (self.model["num_heads"] // self.model["num_kv_heads"])

    def attention(self, layer: int, query_head: int, queries: Any = slice(None)) -> np.ndarray:
        """Softmax rows of these queries over all tokens that each sees: [queries, T]; full cache only.

        With sink logits a row sums to less than 1.
        """
        if self.run.get("policy", "full") not in ("full", b"full"):
            raise KvloupeError(f"{self.path}: a policy was in its cache; its rows cannot be computed from the states")
        q, k = self.query(layer, query_head)[queries], self.key(layer, self.head_of(query_head))
        rows = np.arange(len(self))[queries]
        distance = np.atleast_1d(rows)[:, None] - np.arange(len(self))
        settings = self.layer(layer)
        logits = np.atleast_2d(q).astype(np.float64) @ k.T * settings.scale
        if settings.softcap > 0.0:
            logits = settings.softcap * np.tanh(logits / settings.softcap)
        logits[(distance < 0) | (distance >= (settings.window or len(self)))] = -np.inf
        most = logits.max(-1, keepdims=True)
        rest = 0.0  # of the sink logit, which has a share of the softmax and no value
        if settings.sink_logits is not None:
            sink = float(settings.sink_logits[query_head])
            most = np.maximum(most, sink)
            rest = np.exp(sink - most)
        weights = np.exp(logits - most)
        return (weights / (weights.sum(-1, keepdims=True) + rest)).astype(np.float32)

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First and one-past-last token of each step of the run."""
        if "run/blocks" in self._file:
            return [(int(first), int(end)) for first, end in self._file["run/blocks"][:]]
        block, prompt = int(self.run["block_size"]), int(self.run["prompt_length"])
        steps = [(first, min(first + block, prompt)) for first in range(0, prompt, block)]
        return steps + [(token, token + 1) for token in range(prompt, len(self))]

    @property
    def ids(self) -> np.ndarray:
        return self._file["tokens/ids"][:]

    @property
    def text(self) -> list[str]:
        """The text of each token, with line ends of its own; bytes that are not UTF-8 as \\xNN. Empty if the trace has
        none."""
        if "tokens/text" not in self._file:
            return []
        data = self._file["tokens/text"]
        texts = list(data.asstr()[:])
        if not data.attrs.get("spelled", 0):  # an older trace, or another program's
            return ["\n" if text in ("\\n", "<0x0A>") else text for text in texts]
        return [readable(spelled_bytes(text)) for text in texts]

    @property
    def segments(self) -> dict[str, tuple[int, int]]:
        """First and one-past-last token of each segment that occurs."""
        if "tokens/segment" not in self._file:
            return {}
        data = self._file["tokens/segment"]
        where = data[:]
        names = [name.decode() if isinstance(name, bytes) else str(name) for name in data.attrs["names"]]
        found = {}
        for at, name in enumerate(names):
            tokens = np.flatnonzero(where == at)
            if len(tokens):
                found[name] = (int(tokens[0]), int(tokens[-1]) + 1)
        return found


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Opens a trace; a context manager."""
    return Trace(path)
