"""Rotary positions as docs/trace-format.md defines them: frequencies from a trace's attributes, and their undoing."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .errors import KvloupeError


def frequencies(theta: float, scaling: dict[str, Any] | None, width: int) -> tuple[np.ndarray, float]:
    """The angle per position of each pair of `width` rotated channels, [width / 2] in float64, and the factor that
    the rotation multiplies by.

    `scaling`: the attribute rope_scaling, None for none. Raises KvloupeError for another type than the format names.
    """
    if not theta > 0.0:
        raise KvloupeError("the trace has no rope_theta: the rotation of its queries and keys cannot be undone")
    plain = theta ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    scaling = scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / scaling["factor"], 1.0
    if kind == "llama3":
        turns = scaling["original_max_position_embeddings"] * plain / (2.0 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        share = np.clip((turns - low) / (high - low), 0.0, 1.0)
        return plain * (share + (1.0 - share) / scaling["factor"]), 1.0
    if kind == "yarn":
        return _yarn(theta, plain, scaling, width)
    raise KvloupeError(f"rotary positions of type {kind}: their rotation cannot be undone")


def _yarn(theta: float, plain: np.ndarray, scaling: dict[str, Any], width: int) -> tuple[np.ndarray, float]:
    factor, context = scaling["factor"], scaling["original_max_position_embeddings"]

    def pair(turns: float) -> float:  # the pair that makes this many turns within the original context
        return width * math.log(context / (turns * 2.0 * math.pi)) / (2.0 * math.log(theta))

    first, last = pair(scaling.get("beta_fast") or 32.0), pair(scaling.get("beta_slow") or 1.0)
    if scaling.get("truncate", True) is not False:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    if first == last:
        last += 0.001
    share = np.clip((np.arange(width // 2) - first) / (last - first), 0.0, 1.0)
    longer = lambda scale: 1.0 if factor <= 1.0 else 0.1 * scale * math.log(factor) + 1.0
    own, every = scaling.get("mscale"), scaling.get("mscale_all_dim")
    usual = longer(own) / longer(every) if own and every else longer(1.0)
    return plain * (1.0 - share + share / factor), float(scaling.get("attention_factor") or usual)


def unrotated(states: np.ndarray, positions: np.ndarray, angles: np.ndarray, pairing: str) -> np.ndarray:
    """Turns `states` [tokens, d] at `positions` back; channels beyond the pairs of `angles` stay as they are."""
    count = len(angles)
    result = np.array(states, np.float64)
    if pairing == "interleaved":
        one, two = slice(0, 2 * count, 2), slice(1, 2 * count, 2)
    else:
        one, two = slice(0, count), slice(count, 2 * count)
    turn = np.asarray(positions, np.float64)[:, None] * angles
    cosine, sine = np.cos(turn), np.sin(turn)
    x, y = result[:, one].copy(), result[:, two].copy()
    result[:, one] = x * cosine + y * sine
    result[:, two] = y * cosine - x * sine
    return result.astype(np.float32)
