"""How far the residual stream moves from one token to the next, after each layer of a model that runs."""
from __future__ import annotations

from typing import Any, Sequence

import numpy as np


class ResidualWatch:
    """Follows what the layers give, from a model's first token on, until close().

    `clock`: which layer runs now (places.py); `hidden`: the width of the residual stream.
    """

    def __init__(self, layers: Sequence[Any], clock: Any, hidden: int) -> None:
        self._clock, self._hidden = clock, hidden
        self._changes: list[list[np.ndarray]] = [[] for _ in layers]
        self._last: dict[int, Any] = {}  # of the last token so far: [1, D]
        # Layers may share a module, whose hook then runs for each of them.
        self._hooks = [layer.register_forward_hook(self._leave) for layer in {id(one): one for one in layers}.values()]

    def _leave(self, module: Any, arguments: Any, out: Any) -> None:
        import torch

        x, layer = out[0] if isinstance(out, tuple) else out, self._clock.now
        # Gemma 3n has several streams: its layers give no single one.
        if layer >= len(self._changes) or getattr(x, "ndim", 0) != 3 or x.shape[0] != 1 or x.shape[2] != self._hidden:
            return
        x = x[0].detach().float()
        before = torch.cat([self._last.get(layer, x[:1]).to(x.device), x[:-1]])
        self._changes[layer].append(torch.linalg.vector_norm(x - before, dim=-1).cpu().numpy())
        self._last[layer] = x[-1:].clone()

    def changes(self, tokens: int) -> list[np.ndarray] | None:
        """‖x_t − x_{t−1}‖₂ of so many tokens after each layer, 0 at the first; None if the layers do not give it."""
        found = [np.concatenate(one) if one else np.zeros(0, np.float32) for one in self._changes]
        return found if all(len(one) == tokens and np.isfinite(one).all() for one in found) else None

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._last = {}
