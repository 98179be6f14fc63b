"""Loops in what a model writes: the rule of `kvloupe info` and of the studies' measures."""
from __future__ import annotations

from typing import Sequence

_REPEATS, _TOKENS, _LONGEST = 3, 16, 1024


def first_loop(ids: Sequence[int]) -> int | None:
    """The place at which the first loop begins; None without one. A loop is a span of at most 1024 items that stands at least
    three times in a row and takes 16 items or more in all. The items are token ids, or words."""
    first = None
    for length in range(1, min(_LONGEST, len(ids) // _REPEATS) + 1):
        equal = 0  # items in a row, up to here, that equal those `length` before
        for place in range(length, len(ids)):
            equal = equal + 1 if ids[place] == ids[place - length] else 0
            if equal + length >= max(_TOKENS, _REPEATS * length):
                begin = place - equal - length + 1
                first = begin if first is None else min(first, begin)
                break
    return first
