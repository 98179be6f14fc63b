"""One layer of kvloupe.Cache, as transformers' caches have layers."""
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from transformers import cache_utils
from transformers.cache_utils import CacheLayerMixin

from .entries import Entries
from .errors import KvloupeError
from .policy import Kept, Policy


@dataclasses.dataclass
class Pass:
    """What the layers that read this layer's entries need of the forward pass that runs now."""

    blocks: list[tuple[int, int]]
    kept: list[list[Kept]]  # the policy's answer for each block
    new: tuple[Any, Any]  # keys and values of the pass
    start: Entries | None  # before the first of several blocks; None: one block, whose eviction waits for the end of the pass


class KeptLayer(CacheLayerMixin):
    """One layer of a Cache: the model's own until its policy evicts something."""

    def __init__(self, number: int, own: Any) -> None:
        super().__init__()
        self.number, self.own = number, own
        self.is_sliding = own.is_sliding
        self.seen = 0  # tokens so far
        self.new: tuple[Any, Any] | None = None  # keys and values between update() and the attention
        self.before: tuple[Any, Any] | None = None  # what the own layer held before them
        self.entries: Entries | None = None  # once something was evicted
        self.last: Pass | None = None  # of a layer whose entries other layers read, once something was evicted
        self.policy: Policy | None = None  # made when the shapes are known
        self.window = 0
        self.held: list[np.ndarray] = []  # [heads]: tokens in the cache, ascending
        self.evicted_at: list[list[int]] = []  # [heads] of [seen]
        self.merges: list[tuple[int, int, int, int, float]] = []  # head, step, into, from, weight
        # [heads]: of each step that ranked and dropped tokens these, their scores, the lowest score kept, and its token
        self.why: list[list[tuple[int, np.ndarray, np.ndarray, float, int]]] = []
        self.steps: list[tuple[int, int]] = []

    def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
        self.is_initialized = True

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        self.is_initialized = True
        self.new = key_states, value_states
        if self.entries is not None:
            if self.is_sliding:
                self.own.cumulative_length += key_states.shape[-2]
            return key_states, value_states
        self.before = (self.own.keys, self.own.values) if self.own.is_initialized and self.own.get_seq_length() else None
        return self.own.update(key_states, value_states)

    def get_seq_length(self) -> int:
        return self.seen

    def get_max_length(self) -> int:
        return self.own.get_max_length()

    def get_max_cache_shape(self) -> int:  # its name before transformers 5.24
        return self.own.get_max_cache_shape()

    def get_mask_sizes(self, query: Any) -> tuple[int, int]:
        """query: the number of new tokens; their positions before transformers 5.4."""
        if self.entries is None or self.is_sliding:
            return self.own.get_mask_sizes(query)
        count = query if isinstance(query, int) else query.shape[0]
        return self.seen + count, 0  # of a mask that only layers without an eviction read

    def reset(self) -> None:
        self.own.reset()
        self.__init__(self.number, self.own)  # type: ignore[misc]

    def reorder_cache(self, beam_idx: Any) -> None:
        raise KvloupeError("kvloupe.Cache: holds one sequence and no beams; use num_beams=1")


# Layers with keys and values alone, and those that hold a state beside them, by the names of transformers' classes.
_PLAIN = ("DynamicLayer", "DynamicSlidingWindowLayer")
_HYBRID = ("LinearAttentionAndFullAttentionLayer", "LinearAttentionAndSlidingWindowAttentionLayer")

if hasattr(cache_utils, "LinearAttentionLayer"):
    class _KeptHybridLayer(KeptLayer, cache_utils.LinearAttentionLayer):
        """Beside the entries a state of fixed size (Mamba), which is handled as in transformers' own layer."""

        def __init__(self, number: int, own: Any) -> None:
            KeptLayer.__init__(self, number, own)
            cache_utils.LinearAttentionLayer.__init__(self, number_of_states=own.number_of_states)

        def lazy_initialization(self, *states: Any, **named: Any) -> None:
            if named:  # of the state
                cache_utils.LinearAttentionLayer.lazy_initialization(self, **named)
            else:
                KeptLayer.lazy_initialization(self, *states)


def kept_layer(number: int, own: Any) -> KeptLayer | None:
    """In place of transformers' layer `own`; None where the policy cannot evict from such a layer."""
    kind = type(own).__name__
    return KeptLayer(number, own) if kind in _PLAIN else _KeptHybridLayer(number, own) if kind in _HYBRID else None
