"""One layer of kvloupe.Cache, as transformers' caches have layers, and its entries after something was evicted."""
import copy
import dataclasses
from typing import Any

import numpy as np
import torch
from transformers import cache_utils
from transformers.cache_utils import CacheLayerMixin

from .errors import KvloupeError
from .policy import Kept, Policy


class Entries:
    """The entries of one layer after something was evicted. They lie in slots, in any order; slots stay where they are, and a
    dropped entry's slot is filled by one of the last entries, so that a step copies few rows. Heads may hold different
    numbers: slots that a head does not use are masked."""

    def __init__(self, keys: Any, values: Any, first: int) -> None:
        """keys, values [1, heads, n, d] of the tokens from `first` on. values: a number d_v, where values are the first d_v
        channels of the keys and stay so (no merges)."""
        heads, count = keys.shape[1], keys.shape[2]
        self._width = values if isinstance(values, int) else 0
        self._keys, self._values, self.count = keys, None if self._width else values, count  # with room for more slots
        self.tokens = torch.arange(first, first + count, device=keys.device).repeat(heads, 1)  # [heads, count]; -1: unused
        self.unused = False  # whether any slot is
        self.log_sizes: Any = None  # [heads, count], added to the logits; None: all 0
        self.slots = [np.arange(count) for _ in range(heads)]  # of each head, in the order of its entries

    @property
    def keys(self) -> Any:
        """[1, heads, count, d]"""
        return self._keys[:, :, :self.count]

    @property
    def values(self) -> Any:
        return self.keys[..., :self._width] if self._values is None else self._values[:, :, :self.count]

    def copy(self) -> "Entries":
        """With the same numbers; what happens to one does not happen to the other."""
        own = copy.copy(self)
        own._keys = self.keys.clone()
        own._values = None if self._values is None else self.values.clone()
        own.tokens, own.slots = self.tokens.clone(), [slots.copy() for slots in self.slots]
        own.log_sizes = None if self.log_sizes is None else self.log_sizes.clone()
        return own

    def append(self, keys: Any, values: Any, first: int) -> None:
        before, count = self.count, keys.shape[2]
        self._keys = self._with(self._keys, keys)
        self._values = None if self._values is None else self._with(self._values, values)
        self.count += count
        new = torch.arange(first, first + count, device=keys.device).expand(len(self.slots), -1)
        self.tokens = torch.cat([self.tokens, new], 1)
        if self.log_sizes is not None:
            self.log_sizes = torch.cat([self.log_sizes, torch.zeros_like(new, dtype=self.log_sizes.dtype)], 1)
        self.slots = [np.concatenate([slots, np.arange(before, before + count)]) for slots in self.slots]

    def _with(self, held: Any, states: Any) -> Any:
        end = self.count + states.shape[2]
        fixed = held.is_inference() and not torch.is_inference_mode_enabled()  # not to be written now
        if end > held.shape[2] or fixed or states.requires_grad or held.requires_grad:
            room = states.new_empty(*states.shape[:2], min(end // 4, 64), states.shape[3])
            return torch.cat([held[:, :, :self.count], states, room], 2)
        held[:, :, self.count:end] = states
        return held

    def apply(self, kept: list[Kept]) -> None:
        """Merges, then drops what is not kept, then takes what lost bits."""
        for head, one in enumerate(kept):
            for merge in one.merges:
                slot = int(self.slots[head][merge.into])
                self._values[0, head, slot] = torch.from_numpy(merge.value).to(self._values)
                if merge.key is not None:
                    self._keys[0, head, slot] = torch.from_numpy(merge.key).to(self._keys)
        most = max(len(one.rows) for one in kept)
        heads, sources, targets = [], [], []
        used = np.zeros((len(kept), most), bool)
        for head, one in enumerate(kept):
            slots = self.slots[head][one.rows]
            beyond = slots >= most
            used[head, slots[~beyond]] = True
            moved = slots[beyond]
            slots[beyond] = np.flatnonzero(~used[head])[:len(moved)]
            used[head, slots] = True
            heads.append(np.full(len(moved), head))
            sources.append(moved)
            targets.append(slots[beyond])
            self.slots[head] = slots
        to = lambda parts: torch.from_numpy(np.concatenate(parts)).to(self.tokens.device)
        which, source, target = to(heads), to(sources), to(targets)
        if len(which):
            self._keys[0, which, target] = self._keys[0, which, source]
            if self._values is not None:
                self._values[0, which, target] = self._values[0, which, source]
            self.tokens[which, target] = self.tokens[which, source]
        self.tokens, self.count, self.unused = self.tokens[:, :most], most, not used.all()
        if self.unused:
            self.tokens = self.tokens.masked_fill(~torch.from_numpy(used).to(self.tokens.device), -1)
        for head, one in enumerate(kept):
            for rounded, held in ((one.rounded_keys, self._keys), (one.rounded_values, self._values)):
                if rounded is not None and held is not None:
                    where = self.slots[head][rounded.first:rounded.first + len(rounded.numbers)]
                    held[0, head, torch.from_numpy(where).to(held.device)] = torch.from_numpy(rounded.numbers).to(held)
        if any(one.log_sizes is not None for one in kept):
            sizes = np.zeros((len(kept), most), np.float32)
            for head, one in enumerate(kept):
                if one.log_sizes is not None:
                    sizes[head, self.slots[head]] = one.log_sizes
            self.log_sizes = torch.from_numpy(sizes).to(self.tokens.device)
        elif self.log_sizes is not None:
            self.log_sizes = None


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
