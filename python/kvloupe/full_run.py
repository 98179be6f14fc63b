"""Captures a trace of a transformers model: block prefill with the model's own cache, then greedy tokens."""
import contextlib
import copy
import dataclasses
import os
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Iterable

import numpy as np
import torch
import transformers
from transformers import DynamicCache, cache_utils

from .attention import LogitsCheck, Sink, captured, check_name, check_types, own_logits
from .describe import (RotationCheck, decoder_of, describe, describe_weights, first_device, is_plain_model, layer_rotations,
                       layers_of, run_block, text_config, with_uncompiled)
from .errors import KvloupeError, KvloupeWarning, uncapturable
from .latent import WAYS
from .layout import usual_scale
from .linear import is_plain, weight_of
from .places import PROJECTIONS, Clock, Hooked, Place, find_places, mixer_of, state_bytes
from .progress import reporter
from .prompt import WHOLE, block_tokens, checked_prompt, pieces_of
from .tokenizer import Tokenizer
from .watches import BetweenWatch, FinalNormWatch, ResidualWatch
from .writer import SEGMENTS, TraceWriter

_TOP = 5
_LARGEST_HEAD = 16_000_000  # bytes of an output head, or of its rows, that are stored unasked
# How far the output that a trace's numbers give may be from that of the layer's output projection, in units of its
# largest number. A projection may round its inputs to 8 bits: then linear.py's own limit counts.
_TOLERANCE = {"torch.float32": 5e-4, "torch.float16": 2e-2, "torch.bfloat16": 5e-2}
# Families that compute something else in blocks of several tokens than in one pass.
ONE_PASS = {"jamba": "Jamba's Mamba layers begin each block of several tokens anew"}
_PROBES = ("repeat", "reread")  # a second reading of the context, which KVzip and KVCompose need
# KVzip's own numbers and words.
_PART, _REMINDER = 2048, 8
_FIRST = "\n\nRepeat the previous context exactly."
_NEXT = "\n\nRepeat the part of the previous context exactly, starting with"
_ANSWER = "\n"
_Pass = tuple[int, int, int, int]  # first and end of the probe's tokens, first and end of what is read again
DTYPES = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16"}


def output_head(model: Any) -> Any:
    """The module that makes the logits. Raises KvloupeError for a model without one."""
    found = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if found is None:
        raise KvloupeError(f"{type(model).__name__}: has no output head that gives next tokens; load the model with AutoModelForCausalLM")
    return found


def end_tokens(model: Any) -> set[int]:
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return set(found if isinstance(found, (list, tuple)) else [] if found is None else [found])


class Recording(contextlib.ExitStack):
    """What a run writes beside the states of its attention. `ids` and `segments` grow with each generated token; `start`: when the
    run began. Watches the model until its end."""

    def __init__(self, model: Any, places: list[Place], writer: TraceWriter, ids: list[int], segments: list[str], start: float,
                 progress: Any) -> None:
        super().__init__()
        self.model, self.places, self.writer, self.ids, self.segments = model, places, writer, ids, segments
        self.report, clear = reporter(progress)
        self.first = 0  # token of the block that runs now
        self.blocks: list[tuple[int, int]] = []  # so far
        self._start, self._prompt_length, self._head = start, len(ids), output_head(model)
        self._inputs: list[Any] = []  # of the output head in this block
        layers = [place.layer for place in places]
        own = writer.model.layers  # of a trace that may have the first layers only
        self.clock = Clock(layers)
        # Next tokens, losses and last hidden states, block by block; log-probabilities after the last token: [vocabulary].
        self._top: list[tuple[np.ndarray, np.ndarray]] = []
        self._hidden: list[np.ndarray] = []
        self._losses: list[np.ndarray] = []
        self._last: Any = None
        self.watch = BetweenWatch(places[:own], self.clock,
                                  lambda layer, gate: writer.add(layer, self.first, "gate", gate.cpu().numpy()))
        self._residual = ResidualWatch(layers[:own], self.clock, writer.model.hidden)
        hook = self._head.register_forward_pre_hook(lambda _, args: self._inputs.append(args[0]))
        self._norm = FinalNormWatch(model, next(place for place in places if place.attention is not None), self._head)
        self._watching = [hook.remove, self._norm.close, self.watch.close, self._residual.close]
        for end in (clear, self.clock.close, *self._watching):
            self.callback(end)

    def forward(self, first: int, end: int, cache: Any) -> Any:
        self.first = first
        self._inputs.clear()
        return run_block(self.model, self.ids[first:end], first, cache)

    def take(self, first: int, end: int, logits: Any) -> None:
        """Those that forward() gave: [t, vocabulary]."""
        hidden, logprob = self._inputs[0][0], torch.log_softmax(logits.float(), -1)  # [t, D], [t, vocabulary]
        values, indices = logprob.topk(min(_TOP, logprob.shape[-1]))
        for states in (hidden, values):
            wrong = (~torch.isfinite(states)).any(-1).nonzero()
            if len(wrong):
                raise KvloupeError(f"token {first + int(wrong[0])}: the model's hidden state or logits are not finite; "
                                   "capture with another dtype")
        self._top.append((indices.cpu().numpy(), values.cpu().numpy()))
        self._hidden.append(hidden.float().cpu().numpy())
        if self._last is not None:
            self._losses.append(-self._last[self.ids[first]][None].cpu().numpy())
        targets = torch.tensor(self.ids[first + 1:end], device=logprob.device, dtype=torch.long)
        self._losses.append(-logprob[:len(targets)].gather(1, targets[:, None])[:, 0].cpu().numpy())
        self._last = logprob[-1].clone()
        self._norm.add(hidden, logits)
        self.blocks.append((first, end))

    def run(self, blocks: Iterable[tuple[int, int]], generate: int, step: Callable[[int, int, bool], None],
            runs_end: bool) -> None:
        """step(first, end, whether it is known to be the last) for the blocks of the prompt, then for at most `generate` tokens,
        greedily; an end token ends the text, and runs itself with `runs_end`."""
        ends = end_tokens(self.model)
        for first, end in blocks:
            self.report("prompt", first, self._prompt_length)
            step(first, end, generate == 0 and end == self._prompt_length)
        for made in range(generate):
            self.report("answer", made, generate)
            token = int(self._last.argmax())
            if token in ends and not runs_end:
                break
            self.ids.append(token)
            self.segments.append("answer")
            step(len(self.ids) - 1, len(self.ids), token in ends or made + 1 == generate)
            if token in ends:
                break

    def end(self, cache: Any) -> None:
        """After the last block: what is known of the whole text."""
        for close in self._watching:
            close()
        writer = self.writer
        writer.cut(len(self.ids))
        for layer, described in enumerate(writer.layers):
            described.state_bytes = state_bytes(cache, layer)
            if described.state_bytes and described.attends:
                described.mixer = mixer_of(self.places[layer].layer, self.places[layer].attention)
        changes = self._residual.changes(writer.tokens)
        if changes is not None:  # else the model has several residual streams
            writer.add_residual_changes(changes)

    def finish(self, tokenizer: Any, sink: Any, lm_head: bool, block: int, **run: Any) -> None:
        """What follows the states, and the end of the file. `sink`: has output_kind and rows, as Sink; `run`: attributes."""
        writer, shape, ids = self.writer, self.writer.model, self.ids
        windows = {layer.window or 0 for layer in writer.layers if layer.attends}
        shape.sliding_window = windows.pop() if len(windows) == 1 else 0  # where they differ, each layer says its own
        self._write_output_weights(sink)
        self._write_head(lm_head)
        pieces = pieces_of(tokenizer, shape.vocabulary) if tokenizer is not None else None
        if pieces is not None:
            writer.add_vocabulary(pieces)
        tokens, logprobs = map(np.concatenate, zip(*self._top))
        writer.add_predictions(token_ids=tokens, logprob=logprobs, hidden=np.concatenate(self._hidden),
                               loss=np.concatenate([*self._losses, [np.nan]]))
        kind, names = str(next(iter(sink.output_kind.values()))[0]), list(dict.fromkeys([*SEGMENTS, *self.segments]))
        writer.finish(
            np.array(ids), None if pieces is None else [pieces[token] for token in ids],
            [names.index(segment) for segment in self.segments], self.blocks,
            {"generated": len(ids) - self._prompt_length, "given": 0, "attention_scale": usual_scale(writer.layers),
             "dtype": DTYPES.get(kind, kind), "threads": torch.get_num_threads(), "seed": 0, "block_size": block,
             "prompt_length": self._prompt_length, "device": str(first_device(self.model)), **run,
             "seconds": time.monotonic() - self._start}, names, spelled=True)

    def _write_output_weights(self, sink: Any) -> None:
        """W_O of every layer, or in the layer why there is none."""
        without: dict[str, list[int]] = {}
        for layer, described in enumerate(self.writer.layers):
            self.report("writing", layer, self.writer.model.layers)
            if not described.attends:
                continue
            weight = self._output_weight(self.places[layer], sink)
            if isinstance(weight, str):
                described.without_output_weight = weight
                without.setdefault(weight, []).append(layer)
                continue
            product = lambda a, b: torch.mm(torch.from_numpy(a), torch.from_numpy(b)).numpy()
            self.writer.add_output_weight(layer, weight[0], product, half=self.writer.half or weight[1] <= 16)
        for why, where in without.items():
            more = f" and {len(where) - 1} more" if len(where) > 1 else ""
            self.writer.note(f"layer {where[0]}{more}: {why}; the trace has no W_O there")

    def _output_weight(self, place: Place, sink: Any) -> tuple[np.ndarray, int] | str:
        """[Hq, value_dim, D] and the bits of a number: output = Σ (gate ⊙ A V) · slice, compared with what the projection
        gave in the first block. A text says why there is none."""
        number, own, watch = place.number, self.writer.layers[place.number], self.watch
        if number in watch.why:
            return watch.why[number]
        if place.projection is None:
            return "its output projection has another name than " + ", ".join(PROJECTIONS[:-1]) + f" or {PROJECTIONS[-1]}"
        latent = place.latent if place.latent is not None and not place.latent.expand else None
        if latent is not None and number in watch.gate_rows:
            return "a gate between heads and output projection has no place among latents (mla=\"expanded\" has one)"
        inputs = own.heads * (latent.value_dim if latent is not None else own.value_dim)
        found = weight_of(place.projection, inputs, *sink.output_kind[number])
        if isinstance(found, str):
            name = next(name for name in PROJECTIONS if getattr(place.attention, name, None) is place.projection)
            return f"{name} {found}"
        rows = found.rows.reshape(own.heads, -1, found.rows.shape[-1])
        if rows.shape[-1] != self.writer.model.hidden:
            return f"its output projection gives {rows.shape[-1]} numbers instead of the hidden size {self.writer.model.hidden}"
        if latent is not None:
            rows = latent.output_weight(rows)
        given = watch.outputs.get(number)
        if given is not None:
            made = sink.rows[number] * watch.gate_rows.get(number, 1.0) @ rows.reshape(-1, rows.shape[-1])
            made += 0.0 if found.bias is None else found.bias
            off = float(np.abs(made - given).max() / max(float(np.abs(given).max()), 1e-30))
            exact = _TOLERANCE.get(str(sink.output_kind[number][0]), 5e-2)
            if not off <= (exact if is_plain(place.projection) else max(exact, 0.15)):
                return f"the trace's numbers do not give what its output projection gives (they differ by {off:.2g})"
        return rows, found.bits

    def _write_head(self, lm_head: bool) -> None:
        """The output head, or its rows of the trace's tokens, and the last norm."""
        writer, shape = self.writer, self.writer.model
        head_bytes = 2 * shape.vocabulary * shape.hidden
        whole = lm_head or (head_bytes <= _LARGEST_HEAD and head_bytes < writer.bytes_of_states())
        if whole:
            self._write_rows(None, writer.add_lm_head, "the trace has none")
        final = self._norm.found()
        if final is not None:
            writer.add_final_norm(*final)
            used = np.unique(np.array(self.ids, np.int64))
            if not whole and 2 * len(used) * shape.hidden <= _LARGEST_HEAD:
                self._write_rows(used, lambda rows: writer.add_lm_head_rows(used, rows), "the trace has none of its rows")
        elif lm_head:
            writer.note(f"the effect of a change on the logits is not known of this model: {self._norm.why}")

    def _write_rows(self, ids: np.ndarray | None, write: Callable[[np.ndarray], None], without: str) -> None:
        """The head's rows [n, D] of some token ids, or all in float16."""
        hidden, kind = self._inputs[0], np.float16 if ids is None else np.float32
        found = weight_of(self._head, hidden.shape[-1], hidden.dtype, hidden.device, kind, ids)
        if isinstance(found, str):
            self.writer.note(f"the output head {found}; {without}")
        else:
            write(found.rows.T)


def _ids_within(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text in the middle of a sequence."""
    if isinstance(tokenizer, Tokenizer):
        ids, segments = tokenizer.encode([("context", text)])
        return [token for token, segment in zip(ids, segments) if segment != "special"]
    return list(tokenizer.encode(text, add_special_tokens=False))


def make_probe(kind: str, context: list[int], tokenizer: Any) -> tuple[list[int], list[_Pass]]:
    """The tokens of a probe of this context, and its passes."""
    if kind not in _PROBES:
        raise KvloupeError(f"probe {kind!r}: give repeat (asks the model to repeat the context) or reread (as it is)")
    if not context:
        raise KvloupeError("probe: the prompt begins with its question, so there is no context to read again")
    if kind == "reread":
        return list(context), [(0, len(context), 0, len(context))]
    if tokenizer is None:
        raise KvloupeError("probe repeat: the request to repeat the context needs a tokenizer; use probe reread")
    ids: list[int] = []
    passes: list[_Pass] = []
    answer = _ids_within(tokenizer, _ANSWER)
    for first in range(0, len(context), _PART):
        begin, end = len(ids), min(first + _PART, len(context))
        ids += _ids_within(tokenizer, _NEXT if first else _FIRST) + list(context[max(first - _REMINDER, 0):first]) + answer
        ids += context[first:end]
        passes.append((begin, len(ids), first, end))
    return ids, passes


class _Target:
    """Takes what a Sink writes: queries and keys of a pass at the pass's place among the probe's tokens."""

    def __init__(self, writer: TraceWriter) -> None:
        self.writer = writer
        self.layers = [dataclasses.replace(layer) for layer in writer.layers]
        self.half = writer.half
        self.shift: int | None = None  # from a token of the sequence to one of the probe; None: nothing is taken

    def add(self, layer: int, first: int, name: str, states: np.ndarray) -> None:
        if self.shift is not None and name in ("query", "key"):
            self.writer.add(layer, first + self.shift, f"probe_{name}", states)


def run_probe(record: Recording, tokenizer: Any, kind: str, context: list[int], block: int) -> None:
    """Reads the context in blocks, then each pass after it, and writes the passes' states."""
    model, writer, places, clock, report = record.model, record.writer, record.places, record.clock, record.report
    ids, passes = make_probe(kind, context, tokenizer)
    if max(ids) >= writer.model.vocabulary or min(ids) < 0:
        raise KvloupeError(f"token {max(ids)} of the request to repeat is outside the model's vocabulary of "
                           f"{writer.model.vocabulary}; use probe reread")
    writer.add_probe(kind, ids, passes, len(context))
    target = _Target(writer)
    sink = Sink(target, places, clock)  # type: ignore[arg-type]
    latents = [place.latent for place in places if place.latent is not None]
    for latent in latents:
        latent.keys = None
    cache, watched = DynamicCache(config=model.config), Hooked()

    def run(tokens: list[int], first: int, held: Any) -> None:
        sink.begin(first)
        run_block(model, tokens, first, held, decoder_of(model))  # no logits are needed

    def take_norm(_: Any, positional: Any, named: dict[str, Any]) -> None:
        if target.shift is not None and clock.now < writer.model.layers:
            hidden = named["hidden_states"] if "hidden_states" in named else positional[0]
            norms = torch.linalg.vector_norm(hidden[0].float(), dim=-1).cpu().numpy()
            writer.add_probe_norms(clock.now, sink.first + target.shift, norms)

    try:
        for attention in {id(place.attention): place.attention for place in places}.values():
            if attention is not None:
                watched.hooks.append(attention.register_forward_pre_hook(take_norm, with_kwargs=True))
        with torch.inference_mode(), captured(model, sink):
            for first in range(0, len(context), block):
                report("probe", first, len(context) + len(ids))
                run(context[first:first + block], first, cache)
            marks = [latent.keys for latent in latents]
            for begin, end, _, _ in passes:
                report("probe", len(context) + begin, len(context) + len(ids))
                target.shift = begin - len(context)
                for latent, mark in zip(latents, marks):  # as a copy of the model's cache forgets the tokens after the context
                    latent.keys = mark
                # Each pass adds to its cache: the next one needs the context alone.
                run(ids[begin:end], len(context), cache if end == len(ids) else copy.deepcopy(cache))
    finally:
        watched.close()


@with_uncompiled
def capture(model: Any, tokenizer: Any, prompt: Any, path: str | os.PathLike[str], *, block: int | str = 128,
            generate: int = 0, store: str = "f16", lm_head: bool = False, layers: int | None = None,
            probe: str | None = None, mla: str = "latent", progress: Any = True) -> Path:
    """Runs `prompt` through `model` and writes the trace `path`.

    prompt: a text, a list of (segment, text), or token ids. The prompt runs in blocks of `block` tokens (or "all") through
    the model's own cache, then up to `generate` tokens are generated greedily, one at a time. `store`: f16 or f32 for
    the states. `lm_head`: True stores the output head; False stores it only if it takes at most 16 MB and less than
    the states, and otherwise its rows of the tokens in the trace, up to 16 MB.
    `layers`: the number of first layers in the trace (default: all); predictions are always those of the whole
    model. `probe`: repeat or reread, a second reading of the context, which kvzip and kvcompose need; the context ends
    at the segment `question`, or at the prompt's end. `mla`: for models with latent attention (DeepSeek), latent: the
    latents that the model caches, as one key-value head; expanded: keys and values of every head. `progress`: True
    shows a line if stderr is a terminal; a function is called with (stage, tokens done, tokens in all).

    The model may be quantised or have adapters: W_O is the output of its output projections for unit vectors. Raises
    KvloupeError with one line; after an error or Ctrl-C the unfinished file is gone. Warns if the trace lacks a part.
    """
    block = block_tokens(block)
    config, name, start = text_config(model), type(model).__name__, time.monotonic()
    ids, segments, end = checked_prompt(config, tokenizer, prompt, generate)
    prompt_length, block, context = len(ids), len(ids) if block == WHOLE else block, ids[:end]
    if mla not in WAYS:
        raise KvloupeError(f"mla: {mla!r} is not {' or '.join(WAYS)}")
    modules, device = layers_of(model), first_device(model)
    output_head(model)  # refused before the model runs
    count = len(modules)
    if layers is not None and (not hasattr(layers, "__index__") or not 1 <= layers <= count):
        raise KvloupeError(f"layers {layers}: the model has {count}; give a number from 1 to {count}, of the first layers")
    if probe is not None:
        make_probe(probe, context, tokenizer)
        if config.model_type in ONE_PASS:
            raise KvloupeError(f"probe {probe}: {name} cannot read a second text after a first one, "
                               f"because {ONE_PASS[config.model_type]}; capture it without a probe")
    check_types(config, name)
    check_name(modules, name, str(model.config._attn_implementation))
    # Quantised projections may round by the largest number of a block: then the same tokens must run together.
    logits = LogitsCheck(own_logits(model, ids if is_plain_model(model) else ids[:block], device), name)
    places, shapes = find_places(model, modules, ids[0], device, mla)
    attending = {place.number for place in places if place.attention is not None}
    mixers = [mixer_of(place.layer, place.attention) for place in places]
    if any(mixers) and not hasattr(cache_utils, "LinearAttentionLayer"):
        raise KvloupeError(f"{name} has layers with {next(filter(None, mixers))}, whose states the cache of transformers "
                           f"{transformers.__version__} does not hold; install 5.24 or newer")
    shapes = shapes[:layers]
    shape = describe(model, shapes)
    describe_weights(model, shape)
    latents = [place.latent for place in places[:shape.layers] if place.latent is not None]
    shape.mla = mla if latents else ""
    # How many tokens there will be is known only at the end: the file is made for the most and cut.
    with (TraceWriter(path, shape, prompt_length + generate, store, shapes) as writer,
          Recording(model, places, writer, ids, segments, start, progress) as record):
        if config.model_type in ONE_PASS and 1 < block < prompt_length:
            block = prompt_length
            writer.note(f"the prompt runs as one block of {block} tokens: {ONE_PASS[config.model_type]} (block=1 works, too)")
        sink, cache = Sink(writer, places, record.clock, record.watch.heads), DynamicCache(config=model.config)
        rotation: RotationCheck | None = RotationCheck(places[:shape.layers], record.clock)
        record.callback(rotation.close)
        for latent in latents if mla == "latent" else []:
            record.callback(latent.watch())

        def step(first: int, end: int, last: bool) -> None:
            nonlocal rotation
            sink.begin(first)
            try:
                out = record.forward(first, end, cache)
            except (ValueError, TypeError, AttributeError) as error:
                if record.blocks:
                    raise
                why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
                raise uncapturable(f"{name} does not run with the DynamicCache of transformers ({why})") from error
            if sink.seen != attending:
                raise uncapturable(f"{len(sink.seen)} of {count} layers of {name} call their attention function through "
                                   f"transformers' registry, but {len(attending)} did for the first token")
            if not record.blocks:
                layer_rotations(model, shape, writer.layers)
            if rotation is not None and end > 1:
                rotation.close()
                rotation.keys = sink.last_key
                rotation.apply(shape, writer.layers, end - 1)
                rotation = None
            record.take(first, end, out.logits[0])
            logits.add(first, out.logits[0], next(iter(sink.output_kind.values()))[0])

        with torch.inference_mode(), captured(model, sink):
            blocks = [(first, min(first + block, prompt_length)) for first in range(0, prompt_length, block)]
            record.run(blocks, generate, step, False)
        logits.end()
        record.end(cache)
        if probe is not None:
            run_probe(record, tokenizer, probe, context, block)
        record.finish(tokenizer, sink, lm_head, block)
    for note in writer.notes:
        warnings.warn(note, KvloupeWarning, stacklevel=3)  # the caller of with_uncompiled's
    return Path(path)
