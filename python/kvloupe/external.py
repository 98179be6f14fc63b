"""Sets of tokens that another program or a press of the package kvpress kept, for kvloupe's policy external("FILE").

A press compresses each layer's cache once, after the whole context has run with the full cache. Which tokens are
left is read off the cache: its rows are compared with those before, so any press will do.
"""
import functools
import json
import os
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from . import engine
from .errors import KvloupeError
from .layout import Layer
from .prompt import plain_ids
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
    heads_steps: list[list[Any]] = [[] for _ in heads]
    for layer, count in enumerate(heads):
        for head in range(count):
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


def kept_by_press(press: Any, model: Any, ids: Sequence[int] | np.ndarray) -> list[list[np.ndarray]]:
    """The tokens of the context `ids` that are left in each layer and head: kept[layer][head], ascending.

    Presses that drop entries, and those that mask them by head (AdaKV and others), are understood. Raises
    KvloupeError for a press that changes both keys and values of what it keeps, or where two tokens cannot be told
    apart.
    """
    import torch
    from transformers import DynamicCache

    from .describe import cache_argument, decoder_of, first_device, layers_of

    count = len(ids)
    layers = layers_of(model)
    full: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def keep(layer: int, module: Any, arguments: Any, given: dict[str, Any], output: Any) -> None:
        held = given["cache"] if "cache" in given else given["past_key_values"]
        if held is None:  # a press looks at the model
            return
        own = held.layers[layer]
        if layer not in full and own.keys.shape[2] == count:
            full[layer] = (_rows(own.keys), _rows(own.values))

    # Before those of the press: hooks run in the order in which they were registered.
    hooks = [layer.self_attn.register_forward_hook(functools.partial(keep, at), with_kwargs=True) for at, layer in enumerate(layers)]
    cache = DynamicCache()
    training = model.training
    try:
        model.eval()
        context = torch.tensor([list(map(int, ids))], device=first_device(model))
        with torch.no_grad(), press(model):
            decoder_of(model)(input_ids=context, **{cache_argument(model): cache})
        kept = []
        for at, layer in enumerate(layers):
            if at not in full:
                raise KvloupeError(f"layer {at}: the press ran the model without a cache of the whole context")
            kept.append(_kept(at, full[at], cache.layers[at], getattr(layer.self_attn, "masked_key_indices", None)))
        return kept
    except AssertionError as error:
        raise KvloupeError(f"{type(press).__name__}: {error or 'the press refuses this model or context'}") from error
    finally:
        for hook in hooks:
            hook.remove()
        model.train(training)
        for layer in layers:
            if getattr(layer.self_attn, "masked_key_indices", None) is not None:
                layer.self_attn.masked_key_indices = None


def _rows(states: Any) -> np.ndarray:
    """[heads, tokens] of the bytes of each row of [1, heads, tokens, d]."""
    import torch

    states = states[0].detach().cpu().contiguous()
    if states.dtype == torch.bfloat16:
        states = states.view(torch.int16)
    array = states.numpy()
    return array.view(np.dtype((np.void, array.shape[-1] * array.itemsize)))[..., 0]


def _kept(layer: int, full: tuple[np.ndarray, np.ndarray], left: Any, masked: Any) -> list[np.ndarray]:
    keys, values = _rows(left.keys), _rows(left.values)
    result = []
    for head in range(full[0].shape[0]):
        where = f"layer {layer}, head {head}"
        tokens = _places(full[0][head], keys[head])
        if tokens is None:  # new keys, such as after another rotation: the values say which token it was
            tokens = _places(full[1][head], values[head])
            if tokens is not None and len(np.unique(full[1][head])) < full[1].shape[1]:
                raise KvloupeError(f"{where}: the press changes its keys, and some tokens have equal values; give the "
                                   "press inside of it")
        if tokens is None:
            raise KvloupeError(f"{where}: entries of the cache are those of no token: the press changes keys and "
                               "values; this cannot be shown as a set")
        if masked is not None:
            heads, places = masked[1].cpu().numpy(), masked[2].cpu().numpy()
            tokens = np.delete(tokens, places[heads == head])
        result.append(np.sort(tokens))
    return result


def _places(full: np.ndarray, left: np.ndarray) -> np.ndarray | None:
    """The tokens whose rows these are; equal rows in ascending order. None if a row is of no token."""
    where: dict[bytes, list[int]] = {}
    for token in range(len(full) - 1, -1, -1):
        where.setdefault(full[token].tobytes(), []).append(token)
    tokens = []
    for row in left:
        found = where.get(row.tobytes())
        if not found:
            return None
        tokens.append(found.pop())
    return np.array(tokens, np.int64)


def from_kvpress(press: Any, model: Any, ids: Sequence[int] | np.ndarray, path: str | os.PathLike[str],
                 trace: str | os.PathLike[str] | None = None) -> Path:
    """Runs a kvpress press over the context `ids` and writes `path` for the policy external("PATH").

    `model` is a transformers model that kvpress supports. With `trace`, whose tokens begin with `ids`, the file has
    the trace's own steps: the press acts at the step that ends with the context. Without, it has one step: replay
    the context as one block. Raises KvloupeError for a press, model or trace that do not fit.
    """
    ids = plain_ids(ids) or []
    if not ids:
        raise KvloupeError("ids: the context has no tokens")
    step = 0
    if trace is not None:
        with open_trace(trace) as opened:
            same = opened.ids[:len(ids)].tolist() == ids
            ends = [end for _, end in opened.blocks]
        if not same:
            raise KvloupeError(f"{trace}: does not begin with these ids; capture the same context")
        if len(ids) not in ends:
            raise KvloupeError(f"{trace}: no step ends with token {len(ids) - 1}; capture with a block of {len(ids)}, or "
                               "give the whole prompt as ids")
        step = ends.index(len(ids))
    kept = kept_by_press(press, model, ids)
    if trace is not None:
        return external(trace, kept, path, step)
    return write_steps(path, "", [[[(0, tokens.tolist())] for tokens in layer] for layer in kept])
