"""Which keys a query sees, and the log-sum-exp of its logits, from numbers as a trace holds them."""
from __future__ import annotations

import numpy as np

from .layout import Layer

_LOGITS = 1 << 19  # computed at once: 2 MB


def seen_tokens(queries: np.ndarray, keys: np.ndarray, window: int, chunk: int) -> np.ndarray:
    """[t, n]: whether the query of each token `queries` [t] sees each token `keys` [n]."""
    distance = queries[:, None] - keys[None]
    seen = distance >= 0
    if window > 0:
        seen &= distance < window
    if chunk > 0:
        seen &= queries[:, None] // chunk == keys[None] // chunk
    return seen


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
