"""Writes traces: HDF5 files of format version 1 (docs/trace-format.md), layer by layer while a model runs."""
from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
from pathlib import Path
from types import TracebackType
from typing import Any, Sequence

import h5py
import numpy as np

from .disk import Disk
from .errors import KvloupeError
from .interrupts import Interrupts

SEGMENTS = ("context", "needle", "question", "answer", "special")


@dataclasses.dataclass
class Model:
    """Attributes of `/model`."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    name: str = ""
    architecture: str = ""
    rope_theta: float = 0.0
    rope_scaling: dict[str, Any] | None = None
    rope_pairing: str = "half"
    rotary_dim: int = 0  # rotated channels, the first of each head; 0: all
    sliding_window: int = 0
    config: str = ""
    fingerprint: str = ""
    weights_format: str = ""  # of quantised weights: GGUF, or the method that transformers names
    weights_type: str = ""  # such as Q4_K
    weights_file: str = ""


@dataclasses.dataclass
class Layer:
    """Attributes of `/layers/{l}`, and its sink logits: what differs from the model's is written."""

    scale: float
    softcap: float = 0.0  # logits are cap tanh(logit / cap); 0: not capped
    window: int = 0
    sink_logits: np.ndarray | None = None  # [Hq]
    rope_theta: float | None = None  # None: the model's; 0: this layer does not rotate
    rope_scaling: dict[str, Any] | None = None  # of this rope_theta


_CONTROL = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SPELLED = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)


def shown(piece: bytes) -> str:
    """A token's bytes as a trace spells them: a backslash as \\\\, line ends and tabs as \\n, \\r, \\t; other control
    characters and bytes that are not valid UTF-8 as \\xNN."""
    def one(c: str) -> str:
        if "\udc80" <= c <= "\udcff":
            return f"\\x{ord(c) - 0xDC00:02X}"
        return _CONTROL.get(c, f"\\x{ord(c):02X}") if c < " " or c in "\\\x7f" else c
    return "".join(map(one, piece.decode("utf-8", errors="surrogateescape")))


def readable(piece: bytes) -> str:
    """A token's bytes as text, in which only NUL and bytes that are not valid UTF-8 are written as \\xNN."""
    def one(c: str) -> str:
        return f"\\x{ord(c) & 0xFF:02X}" if "\udc80" <= c <= "\udcff" or c == "\0" else c
    return "".join(map(one, piece.decode("utf-8", errors="surrogateescape")))


def spelled_bytes(text: str) -> bytes:
    """The bytes that shown() spelled."""
    control = {spelled[1]: c for c, spelled in _CONTROL.items()}
    done, at = b"", 0
    for found in _SPELLED.finditer(text):
        done += text[at:found.start()].encode("utf-8", errors="replace")
        done += (bytes([int(found[1], 16)]) if found[1] else
                 control.get(found[2], found[0]).encode("utf-8", errors="replace"))
        at = found.end()
    return done + text[at:].encode("utf-8", errors="replace")


class TraceWriter:
    """One trace of `tokens` tokens, written in a `with` block. The file appears as `path` with finish(); after an
    error or Ctrl-C before that nothing is left, and an older file stays.
    """

    def __init__(self, path: str | os.PathLike[str], model: Model, tokens: int, store: str = "f16") -> None:
        self.path = Path(path)
        self.model = model
        self.tokens = tokens
        self.notes: list[str] = []
        if store not in ("f16", "f32"):
            raise KvloupeError(f"store: {store!r} is not f16 or f32")
        self.half = store == "f16"
        self._type = np.float16 if self.half else np.float32
        if self.path.is_dir():
            raise KvloupeError(f"{self.path}: is a folder; give a file")
        self._disk = Disk(self.path)
        # attention.py calls add(), at whose return datasets die: h5py would swallow an exception there
        self._interrupts = Interrupts(__name__, Disk.__module__, f"{__package__}.attention")
        self._file: h5py.File | None = None

    def __enter__(self) -> "TraceWriter":
        # The file is made here and not by the constructor: between this and the block no Ctrl-C comes.
        model = self.model
        self._interrupts.take()
        try:
            self._disk.open()
            self._file = h5py.File(self._disk, "w", libver=("v110", "v110"))
            shapes = {"query": model.heads, "key": model.kv_heads, "value": model.kv_heads}
            for layer in range(model.layers):
                for name, count in shapes.items():
                    self._file.create_dataset(f"layers/{layer}/{name}", (count, self.tokens, model.head_dim),
                                              self._type)
                self._file.create_dataset(f"layers/{layer}/attention_logsumexp", (model.heads, self.tokens),
                                          np.float32)
            self._check()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self._discard()
        finally:
            self._interrupts.give_back()
        if isinstance(error, OSError):
            raise KvloupeError(f"{self.path}: cannot be written ({error.strerror or error}); check the folder and the "
                               "space on the disk") from error

    def note(self, text: str) -> None:
        """Something that the caller should know about the trace: one line."""
        self.notes.append(text)

    def bytes_of_states(self) -> int:
        """What queries, keys and values take in the file."""
        return sum(self._file[f"layers/{layer}/{name}"].nbytes for layer in range(self.model.layers)
                   for name in ("query", "key", "value"))

    def _check(self) -> None:
        """Raises the error of an earlier write, or KeyboardInterrupt after Ctrl-C."""
        self._disk.check()
        self._interrupts.deliver()

    def _discard(self) -> None:
        """Ends the file; what is not finished is gone."""
        try:
            if self._file:
                self._file.close()
        finally:
            self._disk.close()

    def cut(self, tokens: int) -> None:
        """Fewer tokens than announced: the model ended the text."""
        if tokens == self.tokens:
            return
        for layer in range(self.model.layers):
            for name in ("query", "key", "value", "attention_logsumexp"):
                path = f"layers/{layer}/{name}"
                kept = self._file[path][:, :tokens]
                del self._file[path]
                self._file.create_dataset(path, data=kept)
        self.tokens = tokens

    def add(self, layer: int, first: int, name: str, states: np.ndarray) -> None:
        """States of one block: `query`, `key`, `value` [heads, t, d] or `attention_logsumexp` [heads, t]."""
        states = np.asarray(states, np.float32)
        if not np.isfinite(states).all():
            head, token = np.argwhere(~np.isfinite(states.reshape(states.shape[0], states.shape[1], -1)).all(-1))[0]
            raise KvloupeError(f"layer {layer}, head {head}, token {first + token}: {name} is not finite; "
                               "capture with another dtype")
        path = f"layers/{layer}/{name}"
        data = self._file[path]
        if data.dtype == np.float16 and np.abs(states).max(initial=0.0) > 65504.0:
            whole = data[:].astype(np.float32)
            del self._file[path]
            data = self._file.create_dataset(path, data=whole)
            self.note(f"{path}: a number overflows float16; the dataset is float32")
        data[:, first:first + states.shape[1]] = states.astype(data.dtype)
        self._check()

    def add_probe(self, kind: str, ids: Sequence[int], passes: Sequence[Sequence[int]], context_end: int) -> None:
        """A second reading of the context: its tokens, and for each pass the first and one-past-last of these and of
        the context's tokens that it reads again. Room for its states, which `add` writes as probe_query, probe_key."""
        group = self._file.create_group("probe")
        group.attrs.update(kind=kind, context_end=np.int32(context_end))
        group.create_dataset("ids", data=np.asarray(ids, np.int32))
        group.create_dataset("passes", data=np.asarray(passes, np.int32).reshape(-1, 4))
        for layer in range(self.model.layers):
            for name, heads in (("probe_query", self.model.heads), ("probe_key", self.model.kv_heads)):
                self._file.create_dataset(f"layers/{layer}/{name}", (heads, len(ids), self.model.head_dim), self._type)
            self._file.create_dataset(f"layers/{layer}/probe_input_norm", (len(ids),), np.float32)

    def add_probe_norms(self, layer: int, first: int, norms: np.ndarray) -> None:
        """‖h‖ of the attention's input, of some of the probe's tokens: [t]."""
        if not np.isfinite(norms).all():
            raise KvloupeError(f"layer {layer}, token {first + int(np.argmin(np.isfinite(norms)))} of the probe: the "
                               "norm of the attention's input is not finite; capture with another dtype")
        self._file[f"layers/{layer}/probe_input_norm"][first:first + len(norms)] = norms

    def add_output_weight(self, layer: int, weight: np.ndarray, product: Any = np.matmul,
                          half: bool | None = None) -> None:
        """The output projection [Hq, d, D]; with it the norms of v W_O of every token. `product`: a faster matmul;
        `half`: in float16, if nothing overflows (default: as the states)."""
        weight = np.asarray(weight, np.float32)
        half = (self.half if half is None else half) and bool(np.abs(weight).max(initial=0.0) <= 65504.0)
        data = weight.astype(np.float16 if half else np.float32)
        self._file.create_dataset(f"layers/{layer}/output_weight", data=data)
        weight = data.astype(np.float32)  # as a reader will see it
        group = self.model.heads // self.model.kv_heads
        values = self._file[f"layers/{layer}/value"][:].astype(np.float32)
        norms = np.empty((2, self.model.heads, self.tokens), np.float32)
        for head in range(self.model.heads):
            for first in range(0, self.tokens, 256):  # as much as a processor's cache holds
                rows = slice(first, first + 256)
                out = product(values[head // group, rows], weight[head])
                norms[1, head, rows] = np.sqrt(np.einsum("ij,ij->i", out, out))
                norms[0, head, rows] = np.abs(out, out=out).sum(-1)
                self._interrupts.deliver()
        for name, array in zip(("l1", "l2"), norms):
            self._file.create_dataset(f"layers/{layer}/value_out_norm_{name}", data=array)
        self._check()

    def add_layer(self, layer: int, settings: Layer, scale: float) -> None:
        """How this layer's attention differs from the model's; `scale`: the run's attention_scale."""
        attributes: dict[str, Any] = {}
        if settings.softcap > 0.0:
            attributes["attention_softcap"] = float(settings.softcap)
        if settings.window != self.model.sliding_window:
            attributes["sliding_window"] = np.int32(settings.window)
        if settings.scale != scale:
            attributes["attention_scale"] = float(settings.scale)
        if settings.rope_theta is not None:
            attributes["rope_theta"] = float(settings.rope_theta)
            attributes["rope_scaling"] = json.dumps(settings.rope_scaling)
        self._file[f"layers/{layer}"].attrs.update(attributes)
        if settings.sink_logits is not None:
            self._file.create_dataset(f"layers/{layer}/sink_logits", data=np.asarray(settings.sink_logits, np.float32))

    def add_vocabulary(self, pieces: Sequence[str]) -> None:
        """The piece of every token id, as shown() spells it."""
        encoded = [piece.encode("utf-8") for piece in pieces]
        text = self._file.create_dataset("model/vocabulary/text", data=np.frombuffer(b"".join(encoded), np.uint8))
        text.attrs["spelled"] = np.uint8(1)
        self._file.create_dataset("model/vocabulary/ends", data=np.cumsum([len(piece) for piece in encoded]))

    def add_lm_head(self, weight: np.ndarray) -> None:
        """The output head [vocabulary, D]; best given as float16, which it is stored in."""
        self._file.create_dataset("model/lm_head", data=np.asarray(weight, np.float16))

    def add_lm_head_rows(self, ids: np.ndarray, weight: np.ndarray) -> None:
        """In place of the whole output head, its rows [n, D] of the token ids in the trace: each once, ascending."""
        weight = np.asarray(weight, np.float32)
        half = bool(np.abs(weight).max(initial=0.0) <= 65504.0)
        self._file.create_dataset("model/lm_head_rows", data=weight.astype(np.float16 if half else np.float32))
        self._file.create_dataset("model/lm_head_row_ids", data=np.asarray(ids, np.int32))

    def add_final_norm(self, weight: np.ndarray, bias: np.ndarray | None, centred: bool, rms: np.ndarray) -> None:
        """The last norm, h = weight x / rms + bias: weight and bias [D], rms [T]; `centred`: x less its mean."""
        data = self._file.create_dataset("model/final_norm", data=np.asarray(weight, np.float32))
        if centred:
            data.attrs["centred"] = np.uint8(1)
        if bias is not None:
            self._file.create_dataset("model/final_norm_bias", data=np.asarray(bias, np.float32))
        self._file.create_dataset("predictions/final_rms", data=np.asarray(rms, np.float32))

    def add_predictions(self, **arrays: np.ndarray) -> None:
        """`token_ids`, `logprob` [T, k], `hidden` [T, D], `loss` [T]."""
        for name, array in arrays.items():
            self._file.create_dataset(f"predictions/{name}", data=array)

    def finish(self, ids: np.ndarray, texts: Sequence[str] | None, segments: Sequence[int] | None,
               blocks: Sequence[tuple[int, int]], run: dict[str, Any],
               names: Sequence[str] = SEGMENTS) -> None:
        """Writes the tokens and the run, and gives the file its name. `texts`: as shown() spells them."""
        model = {"num_layers": self.model.layers, "num_heads": self.model.heads,
                 "num_kv_heads": self.model.kv_heads, "head_dim": self.model.head_dim,
                 "hidden_size": self.model.hidden, "vocab_size": self.model.vocabulary,
                 "name": self.model.name, "architecture": self.model.architecture,
                 "rope_theta": self.model.rope_theta, "rope_pairing": self.model.rope_pairing,
                 "rope_scaling": json.dumps(self.model.rope_scaling),
                 "sliding_window": self.model.sliding_window, "config": self.model.config}
        if 0 < self.model.rotary_dim < self.model.head_dim:
            model["rotary_dim"] = np.int32(self.model.rotary_dim)
        if self.model.fingerprint:
            model["fingerprint"] = self.model.fingerprint
        for name in ("weights_format", "weights_type", "weights_file"):
            if getattr(self.model, name):
                model[name] = getattr(self.model, name)
        self._file.require_group("model").attrs.update(model)
        self._file.require_group("run").attrs.update({"policy": "full", "budget": 0, "positions": "original"} | run)
        self._file.create_dataset("run/blocks", data=np.asarray(blocks, np.int32).reshape(-1, 2))
        self._file.create_dataset("tokens/ids", data=np.asarray(ids, np.int32))
        if texts is not None:
            text = self._file.create_dataset("tokens/text", data=list(texts), dtype=h5py.string_dtype())
            text.attrs["spelled"] = np.uint8(1)
        if segments is not None:
            data = self._file.create_dataset("tokens/segment", data=np.asarray(segments, np.uint8))
            data.attrs["names"] = list(names)
        self._file.attrs.update(format="kvloupe-trace", format_version=1, generator="kvloupe (Python) 0.2.0",
                                created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"))
        self._file.flush()
        self._check()
        self._file.attrs["complete"] = np.uint8(1)
        self._file.close()
        self._disk.sync()
        self._check()  # the last time: from here on the trace is there
        self._disk.keep()
