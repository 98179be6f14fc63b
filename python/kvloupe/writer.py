"""Writes traces: HDF5 files as docs/trace-format.md describes them, layer by layer while a model runs."""
import datetime
import json
import math
import os
from ctypes import byref, c_int64, c_void_p
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from . import engine
from .errors import KvloupeError
from .layout import Layer, Model, format_version, layer_attributes, model_attributes, resolved, usual_scale
from .trace_format import logsumexp_of, shown
from .version import VERSION

SEGMENTS = ("context", "needle", "question", "answer", "special")
_LARGEST_HALF = 65504.0
_NUMBERS = {"float32": 0, "float16": 1, "int32": 3, "int64": 4, "uint8": 5}  # and 6: merges


def _array(states: Any) -> np.ndarray:
    """In float32: of what numpy reads, and of torch's tensors, which numpy does not read in bfloat16 or on a card."""
    if hasattr(states, "detach"):
        states = states.detach().float().cpu().numpy()
    if np.iscomplexobj(states):
        raise KvloupeError("the states are complex numbers; give real ones")
    return np.asarray(states, np.float32)


class TraceWriter:
    """One trace of `tokens` tokens, written in a `with` block. The file appears as `path` with finish(); after an
    error or Ctrl-C before that nothing is left, and an older file stays.

        with kvloupe.TraceWriter("trace.h5", kvloupe.Model(layers=2, heads=4, kv_heads=2, head_dim=8, hidden=32,
                                                           vocabulary=100), tokens=20) as trace:
            for layer in range(2):
                trace.add_layer(layer, query=q[layer], key=k[layer], value=v[layer])
            trace.finish(ids)

    States may also come in blocks of tokens, with add(): they go to the file at once. finish() computes what follows
    from them (the log-sum-exp of the logits; norms of v W_O come with output_weight). Arrays may be of numpy or torch.
    `layers` describes layers that differ from the model, one description for each layer. `store`: f16 or f32 for the
    states; a dataset in which a number overflows float16 is float32. Errors are KvloupeError with one line.
    """

    def __init__(self, path: str | os.PathLike[str], model: Model, tokens: int, store: str = "f16",
                 layers: Sequence[Layer] | None = None) -> None:
        self.path = Path(path)
        self.model = model
        self.tokens = self._most = tokens
        self.layers = resolved(model, layers)  # written with finish(): what they say may be found out until then
        self.notes: list[str] = []
        if store not in ("f16", "f32"):
            raise KvloupeError(f"store: {store!r} is not f16 or f32")
        if tokens < 1:
            raise KvloupeError(f"{tokens} tokens: a trace has at least one")
        self.half = store == "f16"
        if self.path.is_dir():
            raise KvloupeError(f"{self.path}: is a folder; give a file")
        self._trace = engine.Handle(c_void_p(), "writer_destroy")
        self._attributes: dict[str, dict[str, Any]] = {}  # of groups and datasets
        self._probe_tokens = 0
        self._filled: dict[tuple[int, str], int] = {}  # tokens of each layer's dataset so far

    def __enter__(self) -> "TraceWriter":
        # The file is made here and not by the constructor: between this and the block no Ctrl-C comes.
        try:
            engine.call("writer_create", os.fsencode(self.path), self._most, byref(self._trace._as_parameter_))
        except BaseException:
            self._trace.close()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._trace.close()

    def note(self, text: str) -> None:
        """Something that the caller should know about the trace: one line."""
        self.notes.append(text)

    def bytes_of_states(self) -> int:
        """What queries, keys and values take in the file."""
        wide = self._widened()
        return sum(math.prod(self._shape(layer, name)) * (2 if self.half and f"/layers/{layer}/{name}" not in wide else 4)
                   for layer, name in self._filled if name in ("query", "key", "value"))

    def _widened(self) -> list[str]:
        """Paths of datasets in which a number overflowed float16."""
        notes = engine.needed().kvloupe_engine_writer_notes(self._trace).decode()
        return [note.split(" ")[0] for note in notes.splitlines()]

    def _put(self, path: str, data: np.ndarray, **attributes: Any) -> None:
        """A whole dataset."""
        data = np.ascontiguousarray(data)
        engine.call("writer_array", self._trace, path.encode(), _NUMBERS.get(data.dtype.name, 6),
                    (c_int64 * data.ndim)(*data.shape), data.ndim, data.ctypes.data)
        if attributes:
            self._attributes[path] = attributes

    def _stored(self, layer: int, name: str, head: int) -> np.ndarray:
        """[T, width] of a head, as stored."""
        found = np.empty((self.tokens, self._shape(layer, name)[2]), np.float32)
        engine.call("writer_read", self._trace, f"/layers/{layer}/{name}".encode(), head, self.tokens, found.ctypes.data)
        return found

    def cut(self, tokens: int) -> None:
        """Fewer tokens than announced: the model ended the text."""
        self.tokens = tokens

    def _shape(self, layer: int, name: str) -> tuple[int, ...]:
        """Of a dataset, with all its tokens. Raises KvloupeError where the layer has no such dataset."""
        if not self._trace._as_parameter_:
            raise KvloupeError(f"{self.path}: is not open; write it in a block: with kvloupe.TraceWriter(…) as trace:")
        if not 0 <= layer < self.model.layers:
            raise KvloupeError(f"layer {layer}: the model has layers 0 to {self.model.layers - 1}")
        own = self.layers[layer]
        has = own.attends and (own.holds or name not in ("key", "value", "probe_key")) and not (
            name == "value" and own.value_is_key_prefix)
        if not has:
            raise KvloupeError(f"layer {layer}: a layer of kind {own.kind} has no {name} of its own")
        return {"query": (own.heads, self.tokens, own.key_dim), "key": (own.kv_heads, self.tokens, own.key_dim),
                "value": (own.kv_heads, self.tokens, own.value_dim), "gate": (self.tokens, own.heads * own.value_dim),
                "attention_logsumexp": (own.heads, self.tokens),
                "probe_query": (own.heads, self._probe_tokens, own.key_dim),
                "probe_key": (own.kv_heads, self._probe_tokens, own.key_dim),
                "probe_input_norm": (self._probe_tokens,)}[name]

    def add(self, layer: int, first: int, name: str, states: np.ndarray) -> None:
        """States of the tokens from `first` on, block after block: `query`, `key`, `value` [heads, t, d], `gate`
        [t, Hq value_dim], or `attention_logsumexp` [heads, t], which finish() computes where it is not given."""
        states = np.ascontiguousarray(_array(states))
        shape = self._shape(layer, name)
        axis = 0 if name in ("gate", "probe_input_norm") else 1
        block = (*shape[:axis], states.shape[axis] if states.ndim > axis else 0, *shape[axis + 1:])
        filled, end = self._filled.get((layer, name), 0), first + block[axis]
        if states.shape != block:
            axes = ["tokens" if at == axis else str(size) for at, size in enumerate(shape)]
            raise KvloupeError(f"layer {layer}: {name} has the shape {list(states.shape)} instead of "
                               f"[{', '.join(axes)}]; look at the order of its axes and at the layer's heads")
        if first != filled or end > shape[axis]:
            raise KvloupeError(f"layer {layer}: {name} of the tokens {first} to {end - 1} comes after {filled} of "
                               f"{shape[axis]} tokens; give blocks in order, without a gap")
        if not np.isfinite(states).all():
            at = np.argwhere(~np.isfinite(states))[0]
            head = at[1] // self.layers[layer].value_dim if name == "gate" else at[0]
            where = "" if len(at) == 1 else f"head {head}, "
            raise KvloupeError(f"layer {layer}, {where}token {first + at[axis]}: {name} is not finite; capture with another dtype")
        if end > first:
            whole = [self._most if at == axis and "probe" not in name else size for at, size in enumerate(shape)]
            engine.call("writer_add", self._trace, f"/layers/{layer}/{name}".encode(),
                        int(self.half and name not in ("attention_logsumexp", "probe_input_norm")),
                        (c_int64 * len(shape))(*whole), len(shape), axis, first, end - first, states.ctypes.data)
        self._filled[layer, name] = end

    def add_layer(self, layer: int, *, query: np.ndarray, key: np.ndarray | None = None,
                  value: np.ndarray | None = None, output_weight: np.ndarray | None = None,
                  gate: np.ndarray | None = None) -> None:
        """All tokens of one layer: `query` [Hq, T, key_dim], `key` [Hk, T, key_dim], `value` [Hk, T, value_dim], after
        the rotation; `output_weight` [Hq, value_dim, D]; `gate` [T, Hq value_dim], as it multiplies the heads' outputs.
        A layer of kind shared has no key and value, a latent one no value."""
        own = self.layers[layer] if 0 <= layer < self.model.layers else Layer()
        for name, states in (("query", query), ("key", key), ("value", value), ("gate", gate)):
            if states is not None:
                self.add(layer, 0, name, states)
            elif name != "gate" and own.holds and not (name == "value" and own.value_is_key_prefix):
                raise KvloupeError(f"layer {layer}: has no {name}; give one")
        if output_weight is not None:
            self.add_output_weight(layer, output_weight)

    def add_probe(self, kind: str, ids: Sequence[int], passes: Sequence[Sequence[int]], context_end: int) -> None:
        """A second reading of the context: its tokens, and for each pass the first and one-past-last of these and of
        the context's tokens that it reads again. `add` then writes its states as probe_query, probe_key."""
        self._put("/probe/ids", np.asarray(ids, np.int32))
        self._put("/probe/passes", np.asarray(passes, np.int32).reshape(-1, 4))
        self._attributes["/probe"] = {"kind": kind, "context_end": context_end}
        self._probe_tokens = len(ids)

    def add_probe_norms(self, layer: int, first: int, norms: np.ndarray) -> None:
        """‖h‖ of the attention's input, of some of the probe's tokens: [t]."""
        self.add(layer, first, "probe_input_norm", norms)

    def _source(self, layer: int) -> int:
        """The layer that holds the keys and values which this layer reads."""
        own = self.layers[layer]
        return own.shares_with if own.kind == "shared" else layer

    def add_output_weight(self, layer: int, weight: np.ndarray, product: Any = np.matmul,
                          half: bool | None = None) -> None:
        """The output projection [Hq, value_dim, D], after the layer's values; with it the norms of v W_O of every
        token. `product`: a faster matmul; `half`: in float16, if nothing overflows (default: as the states)."""
        weight = _array(weight)
        own = self.layers[layer] if 0 <= layer < self.model.layers else Layer(kind="none")
        if not own.attends:
            raise KvloupeError(f"layer {layer}: has no attention, and so no output_weight")
        shape = (own.heads, own.value_dim, self.model.hidden)
        if weight.shape != shape:
            raise KvloupeError(f"layer {layer}: output_weight has the shape {list(weight.shape)} instead of "
                               f"{list(shape)}: query heads, numbers of a value, hidden size")
        if not np.isfinite(weight).all():
            head = int(np.argwhere(~np.isfinite(weight))[0][0])
            raise KvloupeError(f"layer {layer}, head {head}: output_weight is not finite; leave it out")
        source, name = self._source(layer), "key" if own.value_is_key_prefix else "value"
        if self._filled.get((source, name), 0) < self.tokens:
            raise KvloupeError(f"layer {layer}: output_weight comes before the values of all tokens; add them first")
        half = (self.half if half is None else half) and bool(np.abs(weight).max(initial=0.0) <= _LARGEST_HALF)
        data = weight.astype(np.float16 if half else np.float32)
        self._put(f"/layers/{layer}/output_weight", data)
        weight = data.astype(np.float32)  # as a reader will see it
        group = own.heads // own.kv_heads
        norms = np.empty((2, own.heads, self.tokens), np.float32)
        for head in range(own.heads):
            if head % group == 0:
                values = np.ascontiguousarray(self._stored(source, name, head // group)[:, :own.value_dim])
            for first in range(0, self.tokens, 256):  # as much as a processor's cache holds
                rows = slice(first, first + 256)
                out = product(values[rows], weight[head])
                norms[1, head, rows] = np.sqrt(np.einsum("ij,ij->i", out, out))
                norms[0, head, rows] = np.abs(out, out=out).sum(-1)
        for name, array in zip(("l1", "l2"), norms):
            self._put(f"/layers/{layer}/value_out_norm_{name}", array)

    def add_residual_changes(self, changes: Sequence[np.ndarray]) -> None:
        """Of every layer, how far the residual stream after it moves from one token to the next: [T] each, 0 at the
        first token. For the policy epikv."""
        if [np.shape(one) for one in changes] != [(self.tokens,)] * self.model.layers:
            raise KvloupeError(f"residual changes have the shapes {[list(np.shape(one)) for one in changes]} instead of "
                               f"[{self.tokens}], one for each token, of each of the {self.model.layers} layers")
        for layer, one in enumerate(changes):
            if not np.isfinite(one).all():
                raise KvloupeError(f"layer {layer}, token {int(np.argmin(np.isfinite(one)))}: the change of the residual "
                                   "stream is not finite; capture with another dtype")
            self._put(f"/layers/{layer}/residual_change", np.asarray(one, np.float32))

    def add_evictions(self, layer: int, evicted_at: np.ndarray, merges: Sequence[tuple[int, int, int, int, float]]) -> None:
        """Of a closed-loop run: the step at which each token left each head, [Hk, T], -1 if it stayed; and each merge as
        (head, step, into, from, weight), in the order of the steps."""
        own = self.layers[layer]
        if np.shape(evicted_at) != (own.kv_heads, self.tokens):
            raise KvloupeError(f"layer {layer}: evicted_at has the shape {list(np.shape(evicted_at))} instead of "
                               f"[{own.kv_heads}, {self.tokens}]: key-value heads, tokens")
        self._put(f"/layers/{layer}/evicted_at", np.asarray(evicted_at, np.int32))
        if len(merges):
            kind = [(name, np.int32) for name in ("head", "step", "into", "from")] + [("weight", np.float32)]
            self._put(f"/layers/{layer}/merges", np.array([tuple(one) for one in merges], np.dtype(kind)))

    def add_vocabulary(self, pieces: Sequence[str]) -> None:
        """The piece of every token id, as shown() spells it."""
        encoded = [piece.encode("utf-8") for piece in pieces]
        self._put("/model/vocabulary/text", np.frombuffer(b"".join(encoded), np.uint8), spelled=True)
        self._put("/model/vocabulary/ends", np.cumsum([len(piece) for piece in encoded], dtype=np.int64))

    def add_lm_head(self, weight: np.ndarray) -> None:
        """The output head [vocabulary, D]; best given as float16, which it is stored in."""
        self._put("/model/lm_head", np.asarray(weight, np.float16))

    def add_lm_head_rows(self, ids: np.ndarray, weight: np.ndarray) -> None:
        """In place of the whole output head, its rows [n, D] of the token ids in the trace: each once, ascending."""
        weight = np.asarray(weight, np.float32)
        half = bool(np.abs(weight).max(initial=0.0) <= _LARGEST_HALF)
        self._put("/model/lm_head_rows", weight.astype(np.float16 if half else np.float32))
        self._put("/model/lm_head_row_ids", np.asarray(ids, np.int32))

    def add_final_norm(self, weight: np.ndarray, bias: np.ndarray | None, centred: bool, rms: np.ndarray) -> None:
        """The last norm, h = weight x / rms + bias: weight and bias [D], rms [T]; `centred`: x less its mean."""
        self._put("/model/final_norm", np.asarray(weight, np.float32), **({"centred": True} if centred else {}))
        if bias is not None:
            self._put("/model/final_norm_bias", np.asarray(bias, np.float32))
        self._put("/predictions/final_rms", np.asarray(rms, np.float32))

    def add_predictions(self, **arrays: np.ndarray) -> None:
        """`token_ids`, `logprob` [T, k], `hidden` [T, D], `loss` [T]."""
        for name, array in arrays.items():
            self._put(f"/predictions/{name}", np.asarray(array, np.int32 if name == "token_ids" else np.float32))

    def _fill_scales(self, given: float | None) -> None:
        """The scale of layers that say none: `given`, the run's, or what most models take."""
        for layer, own in enumerate(self.layers):
            if not own.attends or own.scale is not None:
                continue
            if given is None and self.layers[self._source(layer)].kind == "latent":
                raise KvloupeError(f"layer {layer}: reads latents, whose width says nothing about the scale; give the "
                                   "scale of the model's attention")
            own.scale = float(given) if given is not None else float(own.key_dim) ** -0.5

    def _complete(self, closed: bool) -> None:
        """Refuses layers without all their states, and computes the log-sum-exps that were not given; a closed loop has
        none."""
        for layer, own in enumerate(self.layers):
            if not own.attends:
                continue
            window = self.model.sliding_window if own.window is None else own.window
            if window > 0 and own.chunk > 0:
                raise KvloupeError(f"layer {layer}: has a window of {window} and chunks of {own.chunk}; a trace knows "
                                   "only one of them in a layer")
            needed = [name for name in ("query", "key", "value") if not (name == "value" and own.value_is_key_prefix)
                      and (own.holds or name == "query")]
            for name in needed + [name for name in ("gate", "attention_logsumexp") if (layer, name) in self._filled]:
                filled = self._filled.get((layer, name), 0)
                if filled < self.tokens:
                    raise KvloupeError(f"layer {layer}: has {name} of {filled} tokens, but the trace has "
                                       f"{self.tokens}; add the states of every token before the trace is finished")
            if own.sink_logits is not None:
                sinks = np.asarray(own.sink_logits, np.float32).reshape(-1)
                if sinks.shape != (own.heads,):
                    raise KvloupeError(f"layer {layer}: {sinks.size} sink logits for {own.heads} query heads")
                self._put(f"/layers/{layer}/sink_logits", sinks)
            if closed or (layer, "attention_logsumexp") in self._filled:
                continue
            result = np.empty((own.heads, self.tokens), np.float32)
            for head in range(own.heads):
                key = self._stored(self._source(layer), "key", head * own.kv_heads // own.heads)
                result[head] = logsumexp_of(self._stored(layer, "query", head), key, own, own.scale, window)
                if own.sink_logits is not None:
                    result[head] = np.logaddexp(result[head], sinks[head])
            self.add(layer, 0, "attention_logsumexp", result)

    def finish(self, ids: Sequence[int] | np.ndarray, texts: Sequence[str | bytes] | None = None,
               segments: Sequence[int] | dict[str, tuple[int, int]] | None = None, blocks: Sequence[tuple[int, int]] | None = None,
               run: dict[str, Any] | None = None, names: Sequence[str] = SEGMENTS, spelled: bool = False) -> None:
        """Writes the tokens and the run, and gives the file its name.

        ids: the tokens [T]. texts: the text of each token, as text or bytes, or with `spelled` as shown() gives it.
        segments: for each token the place of its segment in `names`, or as Trace.segments gives them. blocks: first and one-past-last
        token of each
        step. run: attributes of `/run`, such as prompt_length (default: all tokens), block_size (128), and given: how
        many tokens after the prompt the model was given and did not choose.
        """
        ids = np.asarray(ids, np.int64).reshape(-1)
        if len(ids) != self.tokens:
            raise KvloupeError(f"{len(ids)} ids for {self.tokens} tokens; give one for each token")
        if ids.min() < 0 or ids.max() >= self.model.vocabulary:
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise KvloupeError(f"token {wrong} is outside the model's vocabulary of {self.model.vocabulary}")
        if isinstance(segments, dict):
            of = {token: name for name, (first, end) in segments.items() for token in range(first, end)}
            names = tuple(dict.fromkeys([*SEGMENTS, *segments]))
            segments = [names.index(of.get(token, "context")) for token in range(self.tokens)]
        for name, given in (("texts", texts), ("segments", segments)):
            if given is not None and len(given) != self.tokens:
                raise KvloupeError(f"{len(given)} {name} for {self.tokens} tokens; give one for each token")
        run = {"block_size": 128, "prompt_length": self.tokens} | (run or {})
        prompt = int(run["prompt_length"])
        if not 1 <= prompt <= self.tokens:
            raise KvloupeError(f"prompt_length {prompt}: the trace has {self.tokens} tokens")
        run.setdefault("generated", self.tokens - prompt)
        if not 0 <= int(run.get("given", 0)) <= self.tokens - prompt:
            raise KvloupeError(f"given {run['given']}: {self.tokens - prompt} tokens follow the prompt")
        self._fill_scales(run.get("attention_scale"))
        scale = run.setdefault("attention_scale", usual_scale(self.layers))
        self._complete(run.get("policy", "full") != "full")
        layers = [layer_attributes(self.model, scale, own) for own in self.layers]
        said = self._attributes | {f"/layers/{layer}": own for layer, own in enumerate(layers)}
        said["/model"] = model_attributes(self.model)
        said["/run"] = {"policy": "full", "budget": 0, "positions": "original"} | run
        if blocks is not None:
            self._put("/run/blocks", np.asarray(blocks, np.int32).reshape(-1, 2))
        self._put("/tokens/ids", ids.astype(np.int32))
        if segments is not None:
            self._put("/tokens/segment", np.asarray(segments, np.uint8))
            said["/tokens/segment"] = {"names": list(names)}
        gates = any(name == "gate" for _, name in self._filled)
        said["/"] = {"format": "kvloupe-trace", "format_version": format_version(self.model, layers, gates),
                     "generator": f"kvloupe (Python) {VERSION}",
                     "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
        description: dict[str, Any] = {"attributes": said}
        if texts is not None:
            description["texts"] = list(texts) if spelled else [
                shown(one.encode("utf-8", "replace") if isinstance(one, str) else one) for one in texts]
        self.notes += [f"{path[1:]}: a number overflows float16; the dataset is float32" for path in self._widened()]
        engine.call("writer_finish", self._trace, self.tokens,
                    json.dumps(description, default=lambda one: one.tolist() if hasattr(one, "tolist") else str(one)).encode())
