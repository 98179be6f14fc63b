"""A second reading of the context, which KVzip and KVCompose need: its queries and keys become part of the trace."""
from __future__ import annotations

import copy
import dataclasses
from typing import Any, Callable

import numpy as np
import torch
from transformers import DynamicCache

from .attention import Sink, captured
from .describe import decoder_of, run_block
from .errors import KvloupeError
from .layout import Model
from .places import Clock, Hooked, Place
from .tokenizer import Tokenizer
from .writer import TraceWriter

KINDS = ("repeat", "reread")
# KVzip's own numbers and words.
_PART, _REMINDER = 2048, 8
_FIRST = "\n\nRepeat the previous context exactly."
_NEXT = "\n\nRepeat the part of the previous context exactly, starting with"
_ANSWER = "\n"

Pass = tuple[int, int, int, int]  # first and end of the probe's tokens, first and end of what is read again


def _words(tokenizer: Any, text: str) -> list[int]:
    """The ids of a text in the middle of a sequence."""
    if isinstance(tokenizer, Tokenizer):
        ids, segments = tokenizer.encode([("context", text)])
        return [token for token, segment in zip(ids, segments) if segment != "special"]
    return list(tokenizer.encode(text, add_special_tokens=False))


def make_probe(kind: str, context: list[int], tokenizer: Any) -> tuple[list[int], list[Pass]]:
    """The tokens of a probe of this context, and its passes."""
    if kind not in KINDS:
        raise KvloupeError(f"probe {kind!r}: give repeat (asks the model to repeat the context) or reread (as it is)")
    if not context:
        raise KvloupeError("probe: the prompt begins with its question, so there is no context to read again")
    if kind == "reread":
        return list(context), [(0, len(context), 0, len(context))]
    if tokenizer is None:
        raise KvloupeError("probe repeat: the request to repeat the context needs a tokenizer; use probe reread")
    ids: list[int] = []
    passes: list[Pass] = []
    answer = _words(tokenizer, _ANSWER)
    for first in range(0, len(context), _PART):
        begin, end = len(ids), min(first + _PART, len(context))
        ids += _words(tokenizer, _NEXT if first else _FIRST) + list(context[max(first - _REMINDER, 0):first]) + answer
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


def run_probe(model: Any, tokenizer: Any, shape: Model, writer: TraceWriter, places: list[Place], clock: Clock,
              kind: str, context: list[int], block: int, report: Callable[[str, int, int], None]) -> None:
    """Reads the context in blocks, then each pass after it, and writes the passes' states."""
    ids, passes = make_probe(kind, context, tokenizer)
    if max(ids) >= shape.vocabulary or min(ids) < 0:
        raise KvloupeError(f"token {max(ids)} of the request to repeat is outside the model's vocabulary of "
                           f"{shape.vocabulary}; use probe reread")
    writer.add_probe(kind, ids, passes, len(context))
    target = _Target(writer)
    sink = Sink(target, places, clock)  # type: ignore[arg-type]
    latents = [place.latent for place in places if place.latent is not None]
    for latent in latents:
        latent.rewind(None)
    cache, watched = DynamicCache(config=model.config), Hooked()

    def run(tokens: list[int], first: int, held: Any) -> None:
        sink.begin(first)
        run_block(model, tokens, first, held, decoder_of(model))  # no logits are needed

    def take_norm(_: Any, positional: Any, named: dict[str, Any]) -> None:
        if target.shift is not None and clock.now < shape.layers:
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
            marks = [latent.mark() for latent in latents]
            for begin, end, _, _ in passes:
                report("probe", len(context) + begin, len(context) + len(ids))
                target.shift = begin - len(context)
                for latent, mark in zip(latents, marks):
                    latent.rewind(mark)
                # Each pass adds to its cache: the next one needs the context alone.
                run(ids[begin:end], len(context), cache if end == len(ids) else copy.deepcopy(cache))
    finally:
        watched.close()
