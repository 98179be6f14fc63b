"""Sets of tokens that another program kept, for kvloupe's policy external("FILE")."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from . import engine
from .errors import KvloupeError
from .layout import Layer
from .reader import open_trace


def external(trace: str | os.PathLike[str], kept: Sequence[Sequence[Any]], path: str | os.PathLike[str],
             step: int | None = None) -> Path:
    """Writes `path` from `kept[layer][head]`, the tokens kept in that head after `step`: their numbers, or a mask of
    booleans, True for each token that stays, as long as the cache at that step or as the trace.

    A program that compresses once keeps everything before that step, and afterwards these tokens and all later ones;
    where a layer has a window or chunks, less what has left them.
    Default: the last step of the prompt. Then `policy='external("PATH")'` shows them, with the trace's own blocks.
    A layer without keys of its own has no heads: give an empty list.
    Raises KvloupeError for tokens that are not in the cache at that step, an empty set, or other layers and heads
    than the trace has.
    """
    with open_trace(trace) as opened:
        blocks, prompt = opened.blocks, int(opened.run["prompt_length"])
        described = [opened.layer(layer) for layer in range(int(opened.model["num_layers"]))]
    heads = [own.kv_heads if own.holds else 0 for own in described]
    if step is None:
        step = next(at for at, (_, end) in enumerate(blocks) if end >= prompt)
    if not 0 <= step < len(blocks):
        raise KvloupeError(f"step {step}: the trace has steps 0 to {len(blocks) - 1}")
    if len(kept) != len(heads) or any(len(layer) != count for layer, count in zip(kept, heads)):
        each = str(heads[0]) if len(set(heads)) == 1 else ", ".join(map(str, heads))
        raise KvloupeError(f"kept: the trace has {len(heads)} layers of {each} key-value heads; give a set for each")
    heads_steps = []
    for layer in range(len(heads)):
        heads_steps.append([])
        for head in range(heads[layer]):
            where = f"layer {layer}, head {head}"
            tokens = _tokens(kept[layer][head], where, {blocks[step][1], blocks[-1][1]})
            if not tokens:
                raise KvloupeError(f"kept: {where} has no token; a cache must keep at least one")
            if tokens[0] < 0 or tokens[-1] >= blocks[step][1]:
                wrong = tokens[0] if tokens[0] < 0 else tokens[-1]
                raise KvloupeError(f"kept: token {wrong} of {where} is not in the cache after step {step}, which ends "
                                   f"with token {blocks[step][1] - 1}")
            heads_steps[layer].append(
                [(at, _still_seen(described[layer], list(range(end)) if at < step else
                                  tokens + list(range(blocks[step][1], end)), end))
                 for at, (_, end) in enumerate(blocks)])
    return write_steps(path, str(trace), heads_steps)


def _still_seen(layer: Layer, tokens: list[int], end: int) -> list[int]:
    """Those that the query of token `end` can see: a model's own cache drops what leaves its window or chunk."""
    first = max(end - layer.window + 1 if layer.window else 0, end // layer.chunk * layer.chunk if layer.chunk else 0)
    return [token for token in tokens if token >= first]


def _tokens(kept: Any, where: str, lengths: set[int]) -> list[int]:
    """The numbers of the tokens kept in a head, ascending; `lengths`: those that a mask may have."""
    numbers = np.asarray(kept.tolist() if hasattr(kept, "tolist") else list(kept)).ravel()
    if numbers.dtype == bool:
        if len(numbers) not in lengths:
            raise KvloupeError(f"kept: the mask of {where} has {len(numbers)} entries; give one for each of the "
                               f"{min(lengths)} tokens")
        return [int(token) for token in np.flatnonzero(numbers)]
    if numbers.size and not (np.issubdtype(numbers.dtype, np.number) and (numbers == np.floor(numbers)).all()):
        raise KvloupeError(f"kept: {where} has something else than the numbers of tokens; give whole numbers or a mask "
                           "of booleans")
    return sorted({int(token) for token in numbers})


def write_steps(path: str | os.PathLike[str], trace: str, kept: Any) -> Path:
    """Writes `path` from `kept[layer][head]`, pairs (step, tokens): whole, or not at all."""
    heads = [{"layer": layer, "head": head,
              "steps": [{"step": step, "retained": tokens} for step, tokens in steps]}
             for layer, of_layer in enumerate(kept) for head, steps in enumerate(of_layer)]
    path = Path(path)
    refuse_own_input(path, trace)
    written = json.dumps({"trace": trace, "heads": heads}).encode()
    engine.call("write_file", os.fsencode(path), written, len(written))
    return path


def refuse_own_input(output: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> None:
    """Raises KvloupeError where `output` is a file that is read."""
    for one in inputs:
        if os.path.isfile(output) and os.path.exists(one) and os.path.samefile(output, one):
            raise KvloupeError(f"{output}: is read here, and would be written over; give the output another name")
