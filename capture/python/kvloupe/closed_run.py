"""Runs a model with a policy in its cache and writes the trace: kvloupe-capture run --policy, for models of transformers."""
from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .between import BetweenWatch
from .cache import Cache
from .capture import Predictions, end_tokens, output_head, write_end, write_residual_changes
from .describe import cache_argument, describe_weights, first_device, positions_of, text_config, with_uncompiled
from .functions import AnyPolicy
from .errors import KvloupeWarning
from .final_norm import FinalNormWatch
from .layout import Layer
from .places import Clock, mixer_of, state_bytes
from .progress import reporter
from .prompt import checked_prompt
from .residual import ResidualWatch
from .writer import TraceWriter


class _States:
    """Writes what each layer computed for a block: the states of its own tokens, rotated to their positions."""

    def __init__(self, writer: TraceWriter, heads: dict[int, Any]) -> None:
        self.output_kind: dict[int, tuple[Any, Any]] = {}  # dtype and device of what the output projection gets
        self.rows: dict[int, np.ndarray] = {}  # the first block's first and last row of the attention: [2, Hq value_dim]
        self.first = 0
        self._writer, self._heads = writer, heads

    def take(self, number: int, window: int, query: Any, key: Any, value: Any, call: Any, output: Any) -> None:
        """query [1, Hq, t, d], key and value [1, Hk, t, d] of the block alone, or None where the layer reads another one's; output
        [1, t, Hq, value_dim]."""
        own, fresh = self._writer.layers[number], query.shape[2]
        if number not in self.output_kind:
            own.scale = call.scale
            own.softcap, own.window = float(call.rest.get("softcap") or 0.0), window
            sinks = call.rest.get("s_aux")
            own.sink_logits = None if sinks is None else sinks.detach().float().cpu().numpy().reshape(-1)
            self.output_kind[number] = output.dtype, output.device
            heads = output[0] if own.kind != "latent" else _of_latents(query[0].float(), key[0, 0].float(), own)
            self.rows[number] = heads[[0, fresh - 1]].detach().float().cpu().numpy().reshape(2, -1)
        for name, states in (("query", query), ("key", key), ("value", None if own.value_is_key_prefix else value)):
            if states is not None:
                self._writer.add(number, self.first, name, states[0].float().cpu().numpy())
        self._heads[number] = output[0].detach().reshape(fresh, own.heads, -1)


def _of_latents(query: Any, key: Any, own: Layer) -> Any:
    """[t, Hq, r]: the sums of latents of a first block, query [Hq, t, r + d_r], key [t, r + d_r]."""
    logits = torch.matmul(query, key.T) * own.scale
    later = torch.ones_like(logits[0], dtype=torch.bool).triu(1)
    return torch.matmul(logits.masked_fill(later, -torch.inf).softmax(-1), key[:, :own.value_dim]).transpose(0, 1)


@with_uncompiled
def run(model: Any, tokenizer: Any, prompt: Any, path: str | os.PathLike[str], *, policy: AnyPolicy, budget: int | str,
        block: int | str = 128, generate: int = 0, store: str = "f16", lm_head: bool = False, compression: str = "regular",
        positions: str = "original", progress: Any = True) -> Path:
    """Runs `prompt` through `model` with `policy` in its cache and writes the closed-loop trace `path`.

    The prompt (a text, a list of (segment, text), or token ids) runs in blocks of `block` tokens (or "all"); then up to
    `generate` tokens are generated greedily, one at a time, an end token included. Each layer holds at most `budget` entries of each
    head: a number, or a share of the prompt such as "25%". `compression`: with context-only the policy stops before the
    segment `question`, or at the prompt's end. `positions`, `store`: as in kvloupe.Cache; `lm_head`, `progress`: as in
    kvloupe.capture.

    Raises KvloupeError with one line; the model is left as it was, and an unfinished file is gone. Warns if the trace lacks
    a part.
    """
    ids, segments, context = checked_prompt(text_config(model), tokenizer, prompt, generate)
    output_head(model)  # refused before the model runs
    start, training = time.monotonic(), model.training
    model.eval()
    try:
        with Cache(policy, budget, model=model, block=block, compression=compression, context=context, positions=positions,
                   store=store, prompt_length=len(ids)) as cache:
            notes = _written(model, tokenizer, ids, segments, cache, Path(path), generate, lm_head, store, start, reporter(progress))
    finally:
        model.train(training)
    for note in notes:
        warnings.warn(note, KvloupeWarning, stacklevel=3)
    return Path(path)


def _written(model: Any, tokenizer: Any, ids: list[int], segments: list[str], cache: Cache, path: Path, generate: int,
             lm_head: bool, store: str, start: float, reports: Any) -> list[str]:
    """Runs the model and writes the trace; what it lacks. `ids` and `segments` grow with the generated tokens."""
    report, clear = reports
    prompt_length, ends, device, named = len(ids), end_tokens(model), first_device(model), cache_argument(model)
    shape, places, head = cache.model_shape, cache.places, output_head(model)
    describe_weights(model, shape)
    attending = [place for place in places if place.attention is not None]
    with TraceWriter(path, shape, prompt_length + generate, store, cache.layer_shapes) as writer:
        clock, predictions = Clock([place.layer for place in places]), Predictions(ids)
        watch = BetweenWatch(places, clock, lambda layer, gate: writer.add(layer, states.first, "gate", gate.cpu().numpy()))
        states = _States(writer, watch.heads)
        residual = ResidualWatch([place.layer for place in places], clock, shape.hidden)
        inputs: list[Any] = []
        hook = head.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        norm = FinalNormWatch(model, attending[0], head)
        end_watch = lambda: [end() for end in (hook.remove, norm.close, watch.close, residual.close)]
        cache.observer = states.take

        def step(first: int, end: int, last: bool) -> None:
            states.first, cache.ended = first, last
            inputs.clear()
            out = model(torch.tensor([ids[first:end]], device=device), use_cache=True, **{named: cache},
                        **positions_of(model, first, end, device))
            predictions.add(first, out.logits[0], inputs[0][0])
            norm.add(inputs[0][0], out.logits[0])

        try:
            with torch.inference_mode():
                for first, end in cache.blocks_of(0, prompt_length):
                    report("prompt", first, prompt_length)
                    step(first, end, generate == 0 and end == prompt_length)
                for made in range(generate):
                    report("answer", made, generate)
                    token = int(predictions.last.argmax())
                    ids.append(token)
                    segments.append("answer")
                    step(len(ids) - 1, len(ids), token in ends or made + 1 == generate)
                    if token in ends:
                        break
            for at, described in enumerate(writer.layers):
                described.state_bytes = state_bytes(cache, at)
                if described.state_bytes and described.attends:
                    described.mixer = mixer_of(places[at].layer, places[at].attention)
            end_watch()
            writer.cut(len(ids))
            write_residual_changes(writer, residual)
            for at, described in enumerate(writer.layers):
                if described.holds:
                    writer.add_evictions(at, cache.evicted_at(at), cache.merges(at))
            write_end(writer, tokenizer, places, states, watch, head, inputs[0], norm, ids, segments, predictions, lm_head, report,
                      cache.blocks, {"block_size": min(cache.block, prompt_length), "prompt_length": prompt_length,
                                     "device": str(device), "seconds": start, **cache.attributes()})
        finally:
            cache.observer = None
            end_watch()
            clock.close()
            clear()
    return writer.notes
