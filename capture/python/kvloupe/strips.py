"""What a notebook shows of a replay or a cache: a strip of tokens for each head."""
from __future__ import annotations

import html
from typing import Any, Iterable

import numpy as np

_HEADS, _CELLS = 16, 120


def strips(title: str, heads: Iterable[tuple[int, int, Any]]) -> str:
    """HTML: `title`, and for each of the first (layer, head, whether each token stays) a strip, dark where tokens stay."""
    rows, count = [], 0
    for count, (layer, head, stays) in enumerate(heads, 1):
        if count > _HEADS:
            continue
        shares = [np.mean(part) for part in np.array_split(stays, max(1, min(len(stays), _CELLS)))]
        cells = "".join(f'<rect x="{5 * at}" width="5" height="12" fill-opacity="{share:.2f}"/>' for at, share in enumerate(shares))
        rows.append(f'<tr><td>{layer}.{head}</td><td>{np.sum(stays)}</td><td><svg width="{5 * len(shares)}" height="12" '
                    f'fill="#0072b2">{cells}</svg></td></tr>')
    more = f"<p>The first {_HEADS} of {count} heads.</p>" if count > _HEADS else ""
    return (f"<p>{html.escape(title)}</p><table><tr><th>layer.head</th><th>kept</th><th>tokens that stay</th></tr>"
            f"{''.join(rows)}</table>{more}")
