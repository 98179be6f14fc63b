"""Sets of tokens that another program kept, for kvloupe's policy external("FILE")."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from .disk import name_beside
from .errors import KvloupeError
from .reader import open_trace


def external(trace: str | os.PathLike[str], kept: Sequence[Sequence[Any]], path: str | os.PathLike[str],
             step: int | None = None) -> Path:
    """Writes `path` from `kept[layer][head]`, the tokens kept in that head after `step`.

    A program that compresses once keeps everything before that step, and afterwards these tokens and all later ones.
    Default: the last step of the prompt. Then `policy='external("PATH")'` shows them, with the trace's own blocks.
    Raises KvloupeError for tokens that are not in the cache at that step, an empty set, or other layers and heads
    than the trace has.
    """
    with open_trace(trace) as opened:
        blocks, model, prompt = opened.blocks, opened.model, int(opened.run["prompt_length"])
    layers, heads = int(model["num_layers"]), int(model["num_kv_heads"])
    if step is None:
        step = next(at for at, (_, end) in enumerate(blocks) if end >= prompt)
    if not 0 <= step < len(blocks):
        raise KvloupeError(f"step {step}: the trace has steps 0 to {len(blocks) - 1}")
    if len(kept) != layers or any(len(layer) != heads for layer in kept):
        raise KvloupeError(f"kept: the trace has {layers} layers of {heads} key-value heads; give a set for each")
    heads_steps = []
    for layer in range(layers):
        heads_steps.append([])
        for head in range(heads):
            tokens = sorted({int(token) for token in np.asarray(kept[layer][head]).ravel()})
            where = f"layer {layer}, head {head}"
            if not tokens:
                raise KvloupeError(f"kept: {where} has no token; a cache must keep at least one")
            if tokens[0] < 0 or tokens[-1] >= blocks[step][1]:
                wrong = tokens[0] if tokens[0] < 0 else tokens[-1]
                raise KvloupeError(f"kept: token {wrong} of {where} is not in the cache after step {step}, which ends "
                                   f"with token {blocks[step][1] - 1}")
            heads_steps[layer].append(
                [(at, list(range(end)) if at < step else tokens + list(range(blocks[step][1], end)))
                 for at, (_, end) in enumerate(blocks)])
    return write_steps(path, str(trace), heads_steps)


def write_steps(path: str | os.PathLike[str], trace: str, kept: Any) -> Path:
    """Writes `path` from `kept[layer][head]`, pairs (step, tokens): whole, or not at all."""
    heads = [{"layer": layer, "head": head,
              "steps": [{"step": step, "retained": tokens} for step, tokens in steps]}
             for layer, of_layer in enumerate(kept) for head, steps in enumerate(of_layer)]
    path = Path(path)
    temporary = name_beside(path)
    try:
        temporary.write_text(json.dumps({"trace": trace, "heads": heads}), encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise KvloupeError(f"{path}: cannot be written ({error.strerror}); check the folder and the disk") from error
    finally:
        temporary.unlink(missing_ok=True)
    return path
