"""Which keys a query sees, and the log-sum-exp of its logits, from numbers as a trace holds them."""
from __future__ import annotations

from typing import Any

import numpy as np

from .layout import Layer

_LOGITS = 1 << 19  # computed at once: 2 MB
_HIDDEN = -1e4  # added to a logit leaves no attention; transformers adds the least number of the type, at most -65504


def seen_tokens(queries: Any, keys: Any, window: int, chunk: int) -> Any:
    """[t, n]: whether the query of each token `queries` [t] sees each token `keys` [n]; arrays of numpy or torch."""
    distance = queries[:, None] - keys[None]
    seen = distance >= 0
    if window > 0:
        seen &= distance < window
    if chunk > 0:
        seen &= queries[:, None] // chunk == keys[None] // chunk
    return seen


def mask_says(mask: Any, seen: Any) -> bool:
    """Whether a model's `mask` [..., t, n], of truths or of numbers that are added to the logits, hides what `seen` [t, n] does, and
    changes nothing else."""
    import torch

    if mask.shape[-2:] != seen.shape:
        return False
    return bool((mask == seen if mask.dtype == torch.bool else torch.where(seen, mask == 0, mask <= _HIDDEN)).all())


def mask_is_causal(mask: Any, end: int, window: int = 0, chunk: int = 0) -> bool:
    """The same of a mask for the last t of `end` tokens, over the last n of them, and what causality, a window and chunks hide."""
    import torch

    fresh, count = mask.shape[-2:]
    queries, keys = (torch.arange(end - many, end, device=mask.device) for many in (fresh, count))
    rows = max(1, _LOGITS // count)
    return fresh <= end >= count and all(mask_says(part, seen_tokens(some, keys, window, chunk))
                                         for part, some in zip(mask.split(rows, -2), queries.split(rows)))


def logsumexp_of(query: np.ndarray, key: np.ndarray, layer: Layer, scale: float, window: int) -> np.ndarray:
    """[T] of one query head [T, d] and its keys [T, d], in float32; without the sink logit."""
    tokens = len(query)
    result = np.empty(tokens, np.float32)
    rows = max(1, _LOGITS // tokens)
    for first in range(0, tokens, rows):
        end = min(first + rows, tokens)
        begin = 0 if window <= 0 else max(0, first - window + 1)
        logits = (query[first:end] * np.float32(scale)) @ key[begin:end].T
        if layer.softcap > 0.0:
            logits = layer.softcap * np.tanh(logits / layer.softcap)
        seen = seen_tokens(np.arange(first, end), np.arange(begin, end), window, layer.chunk)
        logits = np.where(seen, logits, -np.inf)
        most = logits.max(-1, keepdims=True)
        result[first:end] = np.log(np.exp(logits - most).sum(-1)) + most[:, 0]
    return result
