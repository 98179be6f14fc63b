"""The entries of one layer's cache after something was evicted."""
from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from .policy import Kept


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
