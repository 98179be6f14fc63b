"""Reads traces with numpy: states per layer and head, and attention of any rows computed from them."""
import json
import html
import os
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from .errors import KvloupeError
from .layout import KINDS, Layer
from .trace_format import frequencies, readable, seen_tokens, spelled_bytes, unrotated


def _plain(attributes: Any) -> dict[str, Any]:
    """With numbers, lists and texts of Python, which json and others take."""
    own = lambda value: value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value
    text = lambda value: value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return {name: text(own(value)) for name, value in attributes.items()}


class Trace:
    """An open trace. Arrays are float32; `layer`, `head` (key-value) and `query_head` count from 0."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise KvloupeError(f"{path}: is not there; give the path of a trace")
        try:
            self._opened = h5py.File(self.path, "r")
        except OSError as error:
            raise KvloupeError(f"{path}: is not a trace that can be read ({error})") from error
        said = _plain(self._file.attrs)
        wrong = ("is not a trace of kvloupe; give a file that a capture wrote" if said.get("format") != "kvloupe-trace" else
                 "is not complete, or of a newer format; capture the prompt again"
                 if said.get("format_version", 0) not in (1, 2) or not said.get("complete", 0) else "")
        if wrong:
            self._file.close()
            raise KvloupeError(f"{path}: {wrong}")
        self.model = _plain(self._file["model"].attrs)
        self.run = _plain(self._file["run"].attrs)
        self._layers: dict[int, Layer] = {}  # as far as they were asked for

    @property
    def _file(self) -> h5py.File:
        if not self._opened:
            raise KvloupeError(f"{self.path}: is closed; open it again with kvloupe.open(path), and read it inside its with block")
        return self._opened

    def close(self) -> None:
        """Closes the file; nothing can be read after it."""
        self._opened.close()

    def __reduce__(self) -> Any:  # a copy, also in another process, opens the file again
        return Trace, (os.path.abspath(self.path),)

    def __repr__(self) -> str:
        if not self._opened:
            return f"<kvloupe.Trace {self.path}, closed>"
        segments = ", ".join(f"{name} {first} to {end - 1}" for name, (first, end) in self.segments.items())
        return (f"<kvloupe.Trace {self.path.name}: {self.model.get('name', 'a model')}, {self.model.get('num_layers', '?')} layers; "
                f"{len(self)} tokens ({segments}); .attention(layer, query_head), .key(layer, head)>")

    def _repr_html_(self) -> str:
        facts = {"trace": self.path.name, "model": self.model.get("name", ""), "layers": self.model.get("num_layers", "?"),
                 "tokens": f"{len(self)}, {self.run.get('prompt_length', '?')} of them the prompt", "steps": len(self.blocks),
                 "policy": f"{self.run['policy']}, budget {self.run['budget']}" if "policy" in self.run else "full cache",
                 **{f"segment {name}": f"{first} to {end - 1}" for name, (first, end) in self.segments.items()}}
        rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in facts.items())
        return f"<table>{rows}</table>"

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self._file["tokens/ids"].shape[0])

    def _states(self, name: str, layer: int, head: int) -> np.ndarray:
        path = f"layers/{layer}/{name}"
        if path not in self._file:
            own = self.layer(layer)
            why = (f": layer {layer} has no attention, but {own.mixer or 'something else'}" if not own.attends else
                   f": {own.without_output_weight}" if name == "output_weight" and own.without_output_weight else "")
            raise KvloupeError(f"{self.path}: has no {path}{why}")
        data = self._file[path]
        if not 0 <= head < data.shape[0]:
            raise KvloupeError(f"{path}: has heads 0 to {data.shape[0] - 1}, not {head}")
        return data[head].astype(np.float32)

    def layer(self, layer: int) -> Layer:
        """How this layer attends: kind, heads and their sizes, scale, cap of the logits, window or chunk, sink logits,
        rotation. A layer of kind none has no states."""
        if layer not in self._layers:
            if f"layers/{layer}" not in self._file:
                raise KvloupeError(f"{self.path}: has no layers/{layer}")
            try:
                own = self._read_layer(layer)
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise KvloupeError(f"{self.path}: an attribute of layers/{layer} is missing or is none that the format "
                                   f"knows ({str(error).splitlines()[0][:100]}); capture the prompt again") from error
            sizes = (own.heads, own.kv_heads, own.key_dim, own.value_dim)
            if own.chunk < 0 or own.attends and (min(sizes) < 1 or own.heads % own.kv_heads or
                                                 own.value_is_key_prefix and own.value_dim > own.key_dim):
                raise KvloupeError(f"{self.path}: layers/{layer} says {own.heads} query heads, {own.kv_heads} key-value "
                                   f"heads, keys of {own.key_dim} and values of {own.value_dim} numbers, chunks of "
                                   f"{own.chunk}, which cannot be; capture the prompt again")
            self._layers[layer] = own
        return self._layers[layer]

    def _read_layer(self, layer: int) -> Layer:
        group = self._file[f"layers/{layer}"]
        own = held = _plain(group.attrs)
        kind = str(own.get("kind") or "attention")
        if kind not in KINDS:
            raise KvloupeError(f"{self.path}: layers/{layer} is of the kind {kind!r}, which this version does not "
                               "know; install a newer one")
        if kind == "shared":
            source = int(own.get("shares_with", -1))
            held = _plain(self._file[f"layers/{source}"].attrs) if 0 <= source < layer else {"kind": "none"}
            if held.get("kind", "attention") not in ("", "attention", "latent"):
                raise KvloupeError(f"{self.path}: layers/{layer} shares the keys of layer {source}, which has none; "
                                   "capture the prompt again")
        usual = {"rope_theta": 0.0, "sliding_window": 0, "rotary_start": 0, "rotary_dim": 0, "attention_softcap": 0.0,
                 "state_bytes": 0, "chunk_size": 0, "mixer": "", "without_output_weight": "", **self.model,
                 "attention_scale": self.run["attention_scale"]}
        said = usual | ({"rope_scaling": None} if "rope_theta" in own else {}) | own
        scaling, width = said.get("rope_scaling"), int(held.get("key_dim", self.model["head_dim"]))
        number = lambda name: int(said[name])
        return Layer(scale=float(said["attention_scale"]), softcap=float(said["attention_softcap"]), window=number("sliding_window"),
                     sink_logits=group["sink_logits"][:].astype(np.float32) if "sink_logits" in group else None,
                     rope_theta=float(said["rope_theta"]), rope_scaling=None if scaling is None else json.loads(scaling),
                     kind=kind, mixer=str(said["mixer"]), heads=number("num_heads"),
                     kv_heads=int(held.get("num_kv_heads", self.model["num_kv_heads"])), key_dim=width,
                     value_dim=int(held.get("value_dim", width)), shares_with=number("shares_with") if kind == "shared" else None,
                     value_is_key_prefix=bool(held.get("value_is_key_prefix", 0)), state_bytes=number("state_bytes"),
                     chunk=number("chunk_size"), rotary_start=number("rotary_start"), rotary_dim=number("rotary_dim"),
                     without_output_weight=str(said["without_output_weight"]))

    def _source(self, layer: int) -> int:
        """The layer whose keys and values this layer reads."""
        own = self.layer(layer)
        return layer if own.shares_with is None else own.shares_with

    def query(self, layer: int, query_head: int, rotated: bool = True) -> np.ndarray:
        """[T, d], after the rotation, or with the rotation undone."""
        return self._turned(self._states("query", layer, query_head), layer, rotated)

    def key(self, layer: int, head: int, rotated: bool = True) -> np.ndarray:
        """[T, d], after the rotation, or with the rotation undone."""
        return self._turned(self._states("key", self._source(layer), head), layer, rotated)

    def _turned(self, states: np.ndarray, layer: int, rotated: bool) -> np.ndarray:
        settings = self.layer(layer)
        if rotated or "rope_theta" in self._file[f"layers/{layer}"].attrs and settings.rope_theta == 0.0:
            return states
        start = settings.rotary_start or 0
        width = settings.rotary_dim or states.shape[1] - start
        angles, _ = frequencies(settings.rope_theta or 0.0, settings.rope_scaling, width)
        result = states.copy()
        pairing = str(self.model.get("rope_pairing", "half"))
        result[:, start:] = unrotated(states[:, start:], np.arange(len(states)), angles, pairing)
        return result

    def value(self, layer: int, head: int) -> np.ndarray:
        """[T, value_dim]"""
        own = self.layer(layer)
        if own.value_is_key_prefix:
            return self._states("key", self._source(layer), head)[:, :own.value_dim]
        return self._states("value", self._source(layer), head)

    def gate(self, layer: int, query_head: int) -> np.ndarray | None:
        """[T, value_dim]: what the head's output is multiplied by before the output projection; None for nothing."""
        own = self.layer(layer)
        if f"layers/{layer}/gate" not in self._file:
            return None
        if not 0 <= query_head < own.heads:
            raise KvloupeError(f"{self.path}: layer {layer} has query heads 0 to {own.heads - 1}, not {query_head}")
        data = self._file[f"layers/{layer}/gate"]
        return data[:, query_head * own.value_dim:(query_head + 1) * own.value_dim].astype(np.float32)

    def output_weight(self, layer: int, query_head: int) -> np.ndarray:
        """[value_dim, D]: the rows of W_O of this query head, from the trace or, if it says so, the cache folder."""
        if f"layers/{layer}/output_weight" in self._file or "shared_weights" not in self.model:
            return self._states("output_weight", layer, query_head)
        with self._shared_weights() as weights:
            data = weights[f"layers/{layer}/output_weight"]
            shape = (self.layer(layer).heads, self.layer(layer).value_dim, self.model["hidden_size"])
            if data.shape != tuple(int(size) for size in shape):
                raise KvloupeError(f"{weights.filename}: holds the weights of another model; remove it")
            if not 0 <= query_head < data.shape[0]:
                raise KvloupeError(f"{self.path}: has query heads 0 to {data.shape[0] - 1}, not {query_head}")
            return data[query_head].astype(np.float32)

    def _shared_weights(self) -> h5py.File:
        """The file of weights that this trace names; checked."""
        fingerprint, form = (str(self.model.get(name, "")) for name in ("fingerprint", "shared_weights"))
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
        held = _plain(weights["model"].attrs) if "model" in weights else {}
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
        return {"kind": str(_plain(group.attrs).get("kind", "")), "context_end": int(group.attrs["context_end"]),
                "ids": group["ids"][:], "passes": group["passes"][:]}

    def probe_query(self, layer: int, query_head: int) -> np.ndarray:
        """[P, d] of the probe's tokens, after the rotation."""
        return self._states("probe_query", layer, query_head)

    def probe_key(self, layer: int, head: int) -> np.ndarray:
        """[P, d] of the probe's tokens, after the rotation."""
        return self._states("probe_key", layer, head)

    def head_of(self, query_head: int, layer: int | None = None) -> int:
        """The key-value head that a query head reads, in this layer, or in one with the heads of most layers."""
        if layer is None:
            return query_head // (self.model["num_heads"] // self.model["num_kv_heads"])
        return query_head * self.layer(layer).kv_heads // self.layer(layer).heads

    def attention(self, layer: int, query_head: int, queries: Any = slice(None)) -> np.ndarray:
        """Softmax rows of these queries over all tokens that each sees: [queries, T]; full cache only.

        With sink logits a row sums to less than 1.
        """
        if self.run.get("policy", "full") != "full":
            raise KvloupeError(f"{self.path}: a policy was in its cache; its rows cannot be computed from the states")
        wrong = [] if isinstance(queries, slice) else [one for one in np.ravel(queries) if not -len(self) <= one < len(self)]
        if wrong and np.asarray(queries).dtype != bool:
            raise KvloupeError(f"{self.path}: has tokens 0 to {len(self) - 1}, not {wrong[0]}")
        q, k = self.query(layer, query_head)[queries], self.key(layer, self.head_of(query_head, layer))
        rows = np.arange(len(self))[queries]
        settings = self.layer(layer)
        logits = np.atleast_2d(q).astype(np.float64) @ k.T * settings.scale
        if settings.softcap > 0.0:
            logits = settings.softcap * np.tanh(logits / settings.softcap)
        logits[~seen_tokens(np.atleast_1d(rows), np.arange(len(self)), settings.window or 0, settings.chunk)] = -np.inf
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
        """int [T]: the token ids of the run, prompt and answer."""
        return self._file["tokens/ids"][:]

    @property
    def text(self) -> list[str]:
        """The text of each token, with line ends of its own; bytes that are not UTF-8 as \\xNN. Without texts the
        id of each token behind a #."""
        if "tokens/text" not in self._file:
            return [f"#{token}" for token in self.ids]
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
