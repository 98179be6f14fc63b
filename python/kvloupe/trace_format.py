"""What docs/trace-format.md defines: rotary positions and their undoing, which keys a query sees, the log-sum-exp of its logits,
and how the bytes of a token are spelled."""
import math
import re
from typing import Any

import numpy as np

from .errors import KvloupeError
from .layout import Layer

_LOGITS = 1 << 19  # computed at once: 2 MB
_CONTROL = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SPELLED = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)


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


def seen_tokens(queries: Any, keys: Any, window: int, chunk: int) -> Any:
    """[t, n]: whether the query of each token `queries` [t] sees each token `keys` [n]; arrays of numpy or torch."""
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


def shown(piece: bytes) -> str:
    """A token's bytes as a trace spells them: a backslash as \\\\, line ends and tabs as \\n, \\r, \\t; other control
    characters and bytes that are not valid UTF-8 as \\xNN."""
    def one(c: str) -> str:
        if "\udc80" <= c <= "\udcff":
            return f"\\x{ord(c) - 0xDC00:02X}"
        return _CONTROL.get(c, f"\\x{ord(c):02X}") if c < " " or c in "\\\x7f" else c
    return "".join(map(one, piece.decode("utf-8", errors="surrogateescape")))


def readable(piece: bytes) -> str:
    """A token's bytes as text, in which only NUL and bytes that are not valid UTF-8 are written as \\xNN."""
    def one(c: str) -> str:
        return f"\\x{ord(c) & 0xFF:02X}" if "\udc80" <= c <= "\udcff" or c == "\0" else c
    return "".join(map(one, piece.decode("utf-8", errors="surrogateescape")))


def spelled_bytes(text: str) -> bytes:
    """The bytes that shown() spelled."""
    control = {spelled[1]: c for c, spelled in _CONTROL.items()}
    done, at = b"", 0
    for found in _SPELLED.finditer(text):
        done += text[at:found.start()].encode("utf-8", errors="replace")
        done += (bytes([int(found[1], 16)]) if found[1] else
                 control.get(found[2], found[0]).encode("utf-8", errors="replace"))
        at = found.end()
    return done + text[at:].encode("utf-8", errors="replace")
