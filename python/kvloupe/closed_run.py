"""Runs a model with a policy in its cache and writes the trace: kvloupe-capture run --policy, for models of transformers."""
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .attention import evaluating
from .cache import Cache
from .describe import describe_weights, text_config, with_uncompiled
from .errors import KvloupeWarning
from .full_run import Recording, output_head
from .functions import AnyPolicy
from .layout import Layer
from .prompt import checked_prompt
from .writer import TraceWriter


class _States:
    """Writes what each layer computed for a block: the states of its own tokens, rotated to their positions."""

    def __init__(self, record: Recording) -> None:
        self.output_kind: dict[int, tuple[Any, Any]] = {}  # dtype and device of what the output projection gets
        self.rows: dict[int, np.ndarray] = {}  # the first block's first and last row of the attention: [2, Hq value_dim]
        self._record = record

    def take(self, number: int, window: int, query: Any, key: Any, value: Any, call: Any, output: Any) -> None:
        """query [1, Hq, t, d], key and value [1, Hk, t, d] of the block alone, or None where the layer reads another one's; output
        [1, t, Hq, value_dim]."""
        own, fresh = self._record.writer.layers[number], query.shape[2]
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
                self._record.writer.add(number, self._record.first, name, states[0].float().cpu().numpy())
        self._record.watch.heads[number] = output[0].detach().reshape(fresh, own.heads, -1)


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
    start, count = time.monotonic(), len(ids)
    with (evaluating(model), Cache(policy, budget, model=model, block=block, compression=compression, context=context,
                                   positions=positions, store=store, prompt_length=count) as cache):
        describe_weights(model, cache.model_shape)
        with (TraceWriter(path, cache.model_shape, count + generate, store, cache.layer_shapes) as writer,
              Recording(model, cache.places, writer, ids, segments, start, progress) as record):
            states = _States(record)
            cache.observer = states.take

            def step(first: int, end: int, last: bool) -> None:
                cache.ended = last
                record.take(first, end, record.forward(first, end, cache).logits[0])
            with torch.inference_mode():
                record.run(cache.blocks_of(0, count), generate, step, True)
            record.end(cache)
            for at, described in enumerate(writer.layers):
                if described.holds:
                    writer.add_evictions(at, cache.evicted_at(at), cache.merges(at))
            record.finish(tokenizer, states, lm_head, min(cache.block, count), **cache.attributes())
    for note in writer.notes:
        warnings.warn(note, KvloupeWarning, stacklevel=3)
    return Path(path)
